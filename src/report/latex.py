"""Write tables as LaTeX."""

import pandas as pd

SPECIAL = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}


def escape(text: object) -> str:
    """Escape a text so that every letter prints as written."""
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(str(text).split()))


def to_latex(cells: pd.DataFrame, names: int, comment: str) -> str:
    """Write a table for the package `booktabs`; the first `names` columns are plain text, others LaTeX."""
    style = cells.style.hide(axis="index").format_index(escape, axis="columns")
    style = style.format(escape, subset=[*cells.columns[:names]])
    columns = "l" * names + "c" * (cells.shape[1] - names)
    return f"% {comment}\n" + str(style.to_latex(column_format=columns, hrules=True))
