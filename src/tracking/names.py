"""Encode arbitrary text as names that MLflow accepts, and decode them.

MLflow accepts letters, digits, `_`, `-`, `.`, blanks and `:` in the name of a metric, a parameter or a tag.
Any other character becomes `_xHEX_`, its code point in hexadecimal, as in SQL/XML (ISO 9075-14): `mood (day)`
is `mood _x28_day_x29_`. Encoding is injective, and leaves ordinary words unchanged.
"""

import hashlib
import re
import sys
from collections.abc import Mapping

# Maximal characters of a name, below MLflow's limit of 250.
LIMIT = 240
# Digits of the hash that ends a shortened name.
DIGITS = 16
ESCAPE = re.compile(r"_x([0-9A-F]{0,6})_")
# An underscore of the text that could start an escape is escaped itself.
BEGINNING = "_(?=x[0-9A-F]*(?:_|{refused}))"
# Characters that MLflow refuses in a name, and that no database stores (NUL, lone surrogates).
REFUSED, UNSTORABLE = r"[^\w\-. :]", r"[\0\ud800-\udfff]"
# MLflow refuses names that resolve to `.` or `..` as folders.
IN_NAME = re.compile(rf"{REFUSED}|{BEGINNING.format(refused=REFUSED)}|\A\.(?=\.|\Z)")
IN_TITLE = re.compile(f"{UNSTORABLE}|{BEGINNING.format(refused=UNSTORABLE)}")
EMPTY = "_x_"


def encode(text: str) -> str:
    """Return a name that MLflow accepts, of any length; `decode` inverts it.

    >>> encode("mood (day)"), encode("Luupite Women"), encode("a_x28_"), encode("")
    ('mood _x28_day_x29_', 'Luupite Women', 'a_x5F_x28_', '_x_')
    """
    return IN_NAME.sub(_escape, text) or EMPTY


def decode(name: str) -> str:
    """Return the text of a name made by `encode`.

    >>> decode("rho.mood _x28_day_x29_"), decode("a_x5F_x28_"), decode("_x_")
    ('rho.mood (day)', 'a_x28_', '')
    """
    return ESCAPE.sub(_character, name)


def encode_metric(name: str) -> str:
    """Return the name of a metric that MLflow accepts: its pages group metrics by what precedes a slash.

    >>> encode_metric("rho.mood (day)"), encode_metric("rho"), encode_metric("rho.a.b/c")
    ('rho/mood _x28_day_x29_', 'rho', 'rho/a.b_x2F_c')
    """
    return "/".join(map(encode, name.split(".", 1)))


def restore_dot(metric_name: str) -> str:
    """Return the name of a metric with a dot after its prefix, as in code and in stores of older versions.

    >>> restore_dot("rho/mood _x28_day_x29_"), restore_dot("rho.older")
    ('rho.mood _x28_day_x29_', 'rho.older')
    """
    return metric_name.replace("/", ".", 1)


def flatten(node: object, prefix: str = "") -> dict[str, object]:
    """Flatten nested values to names: their keys, encoded and joined by dots; a dot in a key is escaped.

    >>> flatten({"exp": {"sets": {"St. Ann": [1]}}, "seed": 0})
    {'exp.sets.St_x2E_ Ann': [1], 'seed': 0}
    """
    if not isinstance(node, Mapping):
        return {prefix: node}
    values: dict[str, object] = {}
    for key, value in node.items():
        values |= flatten(value, f"{prefix}{'.' if prefix else ''}{encode(str(key)).replace('.', '_x2E_')}")
    return values


def shorten(name: str, limit: int = LIMIT) -> str:
    """Shorten a name to a limit: the start of a longer name and a hash of all of it.

    Only shortened names are as long as the limit, so that they never collide with other names.
    """
    if len(name) < limit:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS].upper()
    return f"{name[: limit - DIGITS - 3]}_x{digest}_"


def make_storable(text: str, limit: int) -> str:
    """Return a text that every database accepts: short, without NUL (PostgreSQL) and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:limit]


def encode_title(text: str, limit: int = LIMIT) -> str:
    """Return a name of a run, an experiment or a dataset, with characters that no database stores escaped.

    >>> encode_title("mood (day)"), encode_title("a" + chr(0))
    ('mood (day)', 'a_x0_')
    """
    return shorten(IN_TITLE.sub(_escape, text), limit)


def _escape(character: re.Match[str]) -> str:
    return f"_x{ord(character[0]):X}_"


def _character(escape: re.Match[str]) -> str:
    if not escape[1]:
        return ""
    code = int(escape[1], 16)
    return chr(code) if code <= sys.maxunicode else escape[0]
