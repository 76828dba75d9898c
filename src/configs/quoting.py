"""Quote values for Hydra's command line."""

import json
import re

# Text that needs no quotes, unless it is a number. `null`, `true` and `false` need them: Hydra converts them.
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
    # Hydra unescapes backslashes only before a quote: one in the text, which is escaped, or the closing one.
    value = re.sub(r'(\\*)"', r'\1\1\\"', value)
    return '"' + re.sub(r"(\\*)\Z", r"\1\1", value) + '"'


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
