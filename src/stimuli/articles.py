"""A or an."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import inflect

# What inflect gets wrong, matched against the first word after the article.
AN = [
    "8.*",  # an 8-year-old
    r"1[18](\d\d\d?)?(\D.*)?",  # an 11-year-old, an 1800s villain; but a 110-year-old
    r"hiv\b.*",
    r"(?-i:LAPD|MI5|MI6|MIT|RAF|SAS|SUV)\b.*",  # spelt out, though they could be read as words
    "uber.*",
]


def article_of(following: str) -> str:
    """The indefinite article that agrees with the text after it, British (a herb, a historic).

    >>> [article_of(text) for text in ["hour", "European", "one-eyed person", "HIV-positive person"]]
    ['an', 'a', 'a', 'an']
    """
    bare = "".join(
        sign for sign in unicodedata.normalize("NFD", following) if not unicodedata.combining(sign)
    )
    first = re.search(r"\w\S*", bare)  # of it alone: inflect takes the `a` of `a cappella` for an article
    return _engine().a(first[0]).split()[0] if first else "a"


@functools.cache
def _engine() -> inflect.engine:
    import inflect  # two seconds

    engine = inflect.engine()
    for pattern in AN:
        engine.defan(pattern)
    return engine
