"""Encode a user's words as names that MLflow takes, and decode them.

MLflow takes letters, digits, `_`, `-`, `.`, blanks and `:` in the name of a metric, a parameter or a tag.
Any other character becomes `_xHEX_`, its code point in hexadecimal, as in SQL/XML (ISO 9075-14): `mood (day)`
is `mood _x28_day_x29_`. No two words share a name, and names of ordinary words are the words themselves.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping

# Characters of a name; MLflow's own limit is 250.
LIMIT = 240
# Digits of the hash that ends a shortened name.
DIGITS = 16
ESCAPE = re.compile(r"_x([0-9A-F]{0,6})_")
# An underscore of the text that would read as the beginning of an escape is escaped itself.
BEGINNING = "_(?=x[0-9A-F]*(?:_|{refused}))"
# What MLflow refuses in a name, and what no database stores (zeros, halves of surrogate pairs).
REFUSED, UNSTORABLE = r"[^\w\-. :]", r"[\0\ud800-\udfff]"
# As a whole or at its beginning, `.` and `..` are refused as folders.
IN_NAME = re.compile(rf"{REFUSED}|{BEGINNING.format(refused=REFUSED)}|\A\.(?=\.|\Z)")
IN_TITLE = re.compile(f"{UNSTORABLE}|{BEGINNING.format(refused=UNSTORABLE)}")
EMPTY = "_x_"


def encoded(text: str) -> str:
    """Return a name that MLflow takes, of any length; `decoded` returns the text.

    >>> encoded("mood (day)"), encoded("Luupite Women"), encoded("a_x28_"), encoded("")
    ('mood _x28_day_x29_', 'Luupite Women', 'a_x5F_x28_', '_x_')
    """
    return IN_NAME.sub(_escape, text) or EMPTY


def decoded(name: str) -> str:
    """Return the text of which `encoded` made a name.

    >>> decoded("rho.mood _x28_day_x29_"), decoded("a_x5F_x28_"), decoded("_x_")
    ('rho.mood (day)', 'a_x28_', '')
    """
    return ESCAPE.sub(_character, name)


def paths(node: object, above: str = "") -> dict[str, object]:
    """Return nested values by the names of their keys, encoded and joined by dots; a dot in a key is escaped.

    >>> paths({"exp": {"sets": {"St. Ann": [1]}}, "seed": 0})
    {'exp.sets.St_x2E_ Ann': [1], 'seed': 0}
    """
    if not isinstance(node, Mapping):
        return {above: node}
    values: dict[str, object] = {}
    for key, value in node.items():
        values |= paths(value, f"{above}{'.' if above else ''}{encoded(str(key)).replace('.', '_x2E_')}")
    return values


def shortened(name: str, limit: int = LIMIT) -> str:
    """Return a name within a limit: the beginning of a longer one, and a hash of all of it.

    Only shortened names are as long as the limit, so that none is the name of another word.
    """
    if len(name) < limit:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS].upper()
    return f"{name[: limit - DIGITS - 3]}_x{digest}_"


def storable(text: str) -> str:
    """Return a text that every database takes: without zeros (PostgreSQL) and halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def title(text: str, limit: int = LIMIT) -> str:
    """Return a name of a run, an experiment or a data set: any text, but for what no database stores.

    >>> title("mood (day)"), title("a" + chr(0))
    ('mood (day)', 'a_x0_')
    """
    return shortened(IN_TITLE.sub(_escape, text), limit)


def _escape(character: re.Match[str]) -> str:
    return f"_x{ord(character[0]):X}_"


def _character(escape: re.Match[str]) -> str:
    if not escape[1]:
        return ""
    code = int(escape[1], 16)
    return chr(code) if code <= sys.maxunicode else escape[0]
