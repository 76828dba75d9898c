"""Text for LaTeX."""

from __future__ import annotations

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


def escaped(text: str) -> str:
    """A text whose every letter is printed as it is."""
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(text.split()))
