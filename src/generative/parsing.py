"""Which option a free answer means (docs/methods.md, section 5, "Answers").

An answer counts only where the whole of it is one option, whatever its case and typography. A sentence
around an option is none: "it is not rigid" holds one option and means another, and the published answers
have none either. Nor is a number alone: nobody knows here in which order the options were shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

# What may stand around an answer: final punctuation, quotes, brackets and emphasis.
AROUND = " \t\r\n.,;:!?。、·…\"'“”„‘’«»‹›「」『』《》〈〉()[]{}<>【】*_`"
DASHES = re.compile(r"\s*[-‐‑‒–—―−]+\s*")
# "Option 2: ", "选项二：", and the bare "2. ", of one digit lest an age or a year be taken for it.
NUMBER = re.compile(r"\A(?:(?:option|选项)\s*(?:\d+|[a-e一二三])\s*[:.)、-]\s*|\(?\d[.):、]\s+)(?=\S)")


def match(response: object, options: Sequence[str]) -> int | None:
    """Index of the option that an answer is, or None where it is none of them.

    Case, full-width forms, surrounding blanks, quotes and punctuation, kinds of dashes and apostrophes make
    no difference, nor does "option N:" in front. The first reading that fits decides, the most literal one
    first, so that options may hold or end in punctuation, and be told apart by it.

    Args:
        response: as the model gave it; whatever is no text (a missing cell) is no answer.
        options: two or more, no two alike.

    >>> schools = ["Yale University", "Washington University in St. Louis"]
    >>> match(" Option 2: washington university in St. Louis.", schools)
    1
    >>> match("Option 2", schools) is None
    True
    """
    if not isinstance(response, str):
        return None
    for said, offered in ((_literal, _literal), (_bare, _bare), (_unnumbered, _bare)):
        answer = said(response)
        fitting = [index for index, option in enumerate(options) if offered(option) == answer]
        if answer and fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


@lru_cache(2**16)
def _literal(text: str) -> str:
    # Full-width digits, letters and punctuation are written as plain ones.
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(2**16)
def _bare(text: str) -> str:
    return DASHES.sub("-", _literal(text).strip(AROUND)).replace("’", "'")


@lru_cache(2**16)
def _unnumbered(text: str) -> str:
    # In brackets or emphasis too: "**Option 2:** rigid".
    return _bare(NUMBER.sub("", _literal(text).lstrip("*_`\"'“‘「 ")))
