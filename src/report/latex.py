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
    """Escape a text for LaTeX, so that every character prints as written."""
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(str(text).split()))


def to_latex(cells: pd.DataFrame, n_names: int, comment: str) -> str:
    """Format a table for the package `booktabs`; the first `n_names` columns are texts, the others LaTeX."""
    style = cells.style.hide(axis="index").format_index(escape, axis="columns")
    style = style.format(escape, subset=[*cells.columns[:n_names]])
    columns = "l" * n_names + "c" * (cells.shape[1] - n_names)
    return f"% {comment}\n" + str(style.to_latex(column_format=columns, hrules=True))
