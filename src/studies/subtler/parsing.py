"""Which option a free answer means (docs/methods.md, section 5, "Answers").

An answer counts only where the whole of it is one option, whatever its case and typography, once reasoning
and the usual wrappings are dropped (`wrappings`). A sentence around an option is none: "it is not rigid"
holds one option and means another, and the published answers have none either. Nor is a number alone: nobody
knows here in which order the options were shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from src.studies.subtler.wrappings import unwrapped

# What may stand around an answer: final punctuation, quotes, brackets and emphasis.
AROUND = " \t\r\n.,;:!?。、·…\"'“”„‘’«»‹›「」『』《》〈〉()[]{}<>【】*_`"
DASHES = re.compile(r"\s*[-‐‑‒–—―−]+\s*")
# "Option 2: ", "选项二：", and the bare "2. ", of one digit lest an age or a year be taken for it.
NUMBER = re.compile(r"\A(?:(?:option|选项)\s*(?:\d+|[a-e一二三])\s*[:.)、-]\s*|\(?\d[.):、]\s+)(?=\S)")


def match(response: object, options: Sequence[str]) -> int | None:
    """Index of the option that an answer is, or None where it is none of them.

    Case, full-width forms, surrounding blanks, quotes and punctuation, kinds of dashes and apostrophes make
    no difference, nor does "option N:" in front, a block of reasoning, or a wrapping such as "Answer: …".
    The first reading that fits decides, the most literal one first, so that options may hold or end in
    punctuation, and be told apart by it.

    Args:
        response: as the model gave it; whatever is no text (a missing cell) is no answer.
        options: two or more, no two alike.

    >>> schools = ["Yale University", "Washington University in St. Louis"]
    >>> match(" Option 2: washington university in St. Louis.", schools)
    1
    >>> match("Option 2", schools) is None
    True
    >>> match("<think>Not the second.</think> **Answer:** Yale University", schools)
    0
    """
    if not isinstance(response, str):
        return None
    for text in chain([response], unwrapped(response)):
        fitting = _fitting(text, options)
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _fitting(text: str, options: Sequence[str]) -> list[int]:
    """Options that a text is by the most literal reading that fits any."""
    for read, offered in ((_literal, _literal), (_bare, _bare), (_unnumbered, _bare)):
        answer = read(text)
        fitting = [index for index, option in enumerate(options) if offered(option) == answer]
        if answer and fitting:
            return fitting
    return []


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
