"""Encode arbitrary text as names that MLflow accepts, and decode them.

MLflow accepts letters, digits, `_`, `-`, `.`, `:`, `/` and blanks in the name of a metric, a parameter or a
tag. Any other character, and the slash, becomes `_xHEX_`, its code point in hexadecimal, as in SQL/XML (ISO
9075-14): `mood (day)` is `mood _x28_day_x29_`. Encoding is injective, and leaves ordinary words unchanged.
"""

import hashlib
import re
import sys
from collections.abc import Mapping

# Maximum number of characters of a name, below MLflow's limit of 250.
LIMIT_NAME = 240
# Digits of the hash that ends a shortened name: more than an escape has, so that `decode` leaves it as it is.
HASH_DIGITS = 16
ESCAPE = re.compile(r"_x([0-9A-F]{0,6})_")
# An underscore of the original text that could be read as the start of an escape is itself escaped. The end
# of the escape that it seems to start is an underscore, or the first one of the escape of the next character.
ESCAPE_START = "_(?=x[0-9A-F]*(?:_|{escaped}))"
# Characters to escape in a name: those that MLflow refuses, and the slash (which `encode_metric` adds to
# group metrics). Characters to escape in a title: those that databases refuse (NUL, lone surrogates).
NOT_IN_NAMES, UNSTORABLE = r"[^\w\-. :]", r"[\0\ud800-\udfff]"
# MLflow refuses the name `.` and every name that starts with `..`: in these, the first dot is escaped.
ESCAPED_IN_NAMES = re.compile(rf"{NOT_IN_NAMES}|{ESCAPE_START.format(escaped=NOT_IN_NAMES)}|\A\.(?=\.|\Z)")
ESCAPED_IN_TITLES = re.compile(f"{UNSTORABLE}|{ESCAPE_START.format(escaped=UNSTORABLE)}")
EMPTY_NAME = "_x_"


def encode(text: str) -> str:
    """Encode a text as a name that MLflow accepts apart from its length; `decode` inverts it.

    >>> encode("mood (day)"), encode("Luupite Women"), encode("a_x28_"), encode("")
    ('mood _x28_day_x29_', 'Luupite Women', 'a_x5F_x28_', '_x_')
    """
    return ESCAPED_IN_NAMES.sub(_escape, text) or EMPTY_NAME


def decode(name: str) -> str:
    """Return the text of a name made by `encode`.

    >>> decode("rho.mood _x28_day_x29_"), decode("a_x5F_x28_"), decode("_x_")
    ('rho.mood (day)', 'a_x28_', '')
    """
    return ESCAPE.sub(_unescape, name)


def encode_metric(name: str) -> str:
    """Encode the name of a metric; a slash after its prefix lets MLflow's pages group metrics by prefix.

    >>> encode_metric("rho.mood (day)"), encode_metric("rho"), encode_metric("rho.a.b/c")
    ('rho/mood _x28_day_x29_', 'rho', 'rho/a.b_x2F_c')
    """
    return "/".join(map(encode, name.split(".", 1)))


def restore_dot(metric_name: str) -> str:
    """Return a metric's stored name with a dot after its prefix, as in code and in older stores.

    >>> restore_dot("rho/mood _x28_day_x29_"), restore_dot("rho.older")
    ('rho.mood _x28_day_x29_', 'rho.older')
    """
    return metric_name.replace("/", ".", 1)


def flatten(node: object, prefix: str = "") -> dict[str, object]:
    """Flatten nested mappings: the name of a value joins its encoded keys by dots; dots in keys are escaped.

    >>> flatten({"exp": {"sets": {"St. Ann": [1]}}, "seed": 0})
    {'exp.sets.St_x2E_ Ann': [1], 'seed': 0}
    """
    if not isinstance(node, Mapping):
        return {prefix: node}
    values: dict[str, object] = {}
    for key, value in node.items():
        values |= flatten(value, f"{prefix}{'.' if prefix else ''}{encode(str(key)).replace('.', '_x2E_')}")
    return values


def shorten(name: str, limit: int = LIMIT_NAME) -> str:
    """Shorten a name to `limit` characters: its start, followed by a hash of the whole name.

    A shorter name is returned unchanged. Only shortened names have exactly `limit` characters, so they never
    collide with other names.
    """
    if len(name) < limit:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS].upper()
    return f"{name[: limit - HASH_DIGITS - 3]}_x{digest}_"


def make_storable(text: str, limit: int) -> str:
    """Return a text that databases accept: NUL removed, lone surrogates replaced by `?`, cut to `limit`."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:limit]


def encode_title(text: str, limit: int = LIMIT_NAME) -> str:
    """Encode the name of a run, an experiment or a dataset, and shorten it.

    Only characters that databases refuse are escaped, and underscores that look like the start of an escape.

    >>> encode_title("mood (day)"), encode_title("a" + chr(0))
    ('mood (day)', 'a_x0_')
    """
    return shorten(ESCAPED_IN_TITLES.sub(_escape, text), limit)


def _escape(character: re.Match[str]) -> str:
    return f"_x{ord(character[0]):X}_"


def _unescape(escape: re.Match[str]) -> str:
    if not escape[1]:
        return ""
    code = int(escape[1], 16)
    return chr(code) if code <= sys.maxunicode else escape[0]
