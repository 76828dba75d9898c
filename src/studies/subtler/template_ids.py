"""Which sentence template an item was made from, told from the sentences alone.

A template's sentences differ by pronoun form, by stimulus and by person. What differs is taken out: words
of gender and number are dropped, and whatever is an option of some item (a stimulus of one direction is an
option of the other) becomes a slot, as do numbers. The words that remain, in any order, name the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import pandas as pd
import snowballstemmer

SLOT = "*"
# Chinese has no blanks: each character is a word.
WORD = re.compile(r"\d+|[\u4e00-\u9fff]|[^\W\d_\u4e00-\u9fff]+")
# Pronouns, nouns of gender, words that agree with them, and two published first names; 确 is printed for 群.
AGREEING = (
    "he she they him her them his hers their theirs himself herself themselves who s ve my "
    "man men woman women male males female females boy boys girl girls people person persons native natives "
    "everyone every few jhon meredith a an the and that of in from "
    "is are was were be been being has have had "
    "他 她 们 这 那 个 群 确 男 女 人 的 一"
)
DROPPED = frozenset(AGREEING.split())
# What is no option, yet fills a slot: who somebody is, the noun that carries an adjective, and what is
# printed for "foolish".
SLOTS = (
    *("first-year student", "second-year student", "teacher"),
    *(
        "acumen",
        "attitude",
        "behavior",
        "behaviour",
        "demeanor",
        "demeanour",
        "disposition",
        "nature",
        "spirit",
    ),
    "fool",
)
_STEMMER = snowballstemmer.stemmer("english")

Phrases = dict[str, set[tuple[str, ...]]]


def templates(contexts: pd.Series, options: Iterable[str]) -> pd.Series:
    """Name of each sentence's template.

    Where the options of only one direction are at hand, stimuli stay in the sentences: a name then stands for
    the pronoun forms of a template with one stimulus.

    Args:
        contexts: sentences, of one language.
        options: all phrases that may fill a slot.

    >>> said = pd.Series(["The man from Peru is BLANK.", "The women from Chad are BLANK."])
    >>> templates(said, ["Peru", "Chad"]).tolist()
    ['* blank', '* blank']
    """
    phrases: Phrases = {}
    for option in {*options, *SLOTS}:
        if stems := _stems(option):
            phrases.setdefault(stems[0], set()).add(stems)
    names = {context: _name(_stems(context), phrases) for context in contexts.unique()}
    return contexts.map(names)


def _name(stems: tuple[str, ...], phrases: Phrases) -> str:
    words, at = set(), 0
    while at < len(stems):
        fitting = (phrase for phrase in phrases.get(stems[at], ()) if stems[at : at + len(phrase)] == phrase)
        length = max(map(len, fitting), default=int(stems[at].isdigit()))
        words.add(SLOT if length else stems[at])
        at += length or 1
    return " ".join(sorted(words))


def _stems(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(_stem, WORD.findall(text))))


@lru_cache(2**16)
def _stem(word: str) -> str:
    # To the end: "friendliness" is "friendli" at first, "friendly" is "friend".
    stem, shorter = "", word.lower()
    if shorter in DROPPED:
        return ""
    while stem != shorter:
        stem, shorter = shorter, _STEMMER.stemWord(shorter)
    return stem
