"""Quote values for Hydra's command line."""

import json
import re

# Text that needs no quotes, except numbers: `null`, `true` and `false` are excluded, as Hydra converts them.
PLAIN = re.compile(r"(?!(?:null|true|false)$)[\w./:-]+", re.ASCII | re.IGNORECASE)


def quote(value: object) -> str:
    """Quote a value so that Hydra parses it back unchanged.

    >>> quote("demo"), quote(None), quote([1, "two words"]), quote(0.5), quote("0.5")
    ('demo', 'null', '[1,"two words"]', '0.5', '"0.5"')
    """
    if isinstance(value, list):  # Hydra parses `KEY=` as the empty string, but refuses an empty item
        return "[" + ",".join(quote(item) or '""' for item in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if not value or (PLAIN.fullmatch(value) and not _is_number(value)):
        return value
    # Hydra unescapes backslashes only before a quote.
    return '"' + re.sub(r'(\\*)("|$)', lambda match: 2 * match[1] + ('\\"' if match[2] else ""), value) + '"'


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
