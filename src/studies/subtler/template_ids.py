"""Infer the sentence templates of items from the sentences alone.

The sentences of a template differ by pronoun form, stimulus and person. These differences are removed: words
of gender and number are dropped, and phrases that are options of some item (a stimulus of one direction is an
option of the other) become a slot, as do numbers. The remaining words, in any order, name the template.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

import pandas as pd
import snowballstemmer

SLOT = "*"
# Chinese has no spaces: each character is a word.
WORD = re.compile(r"\d+|[\u4e00-\u9fff]|[^\W\d_\u4e00-\u9fff]+")
# Pronouns, gendered nouns, words that agree with them, and two published first names; 确 is a misprint of 群.
AGREEMENT_WORDS = (
    "he she they him her them his hers their theirs himself herself themselves who s ve my "
    "man men woman women male males female females boy boys girl girls people person persons native natives "
    "everyone every few jhon meredith a an the and that of in from "
    "is are was were be been being has have had "
    "他 她 们 这 那 个 群 确 男 女 人 的 一"
)
DROPPED = frozenset(AGREEMENT_WORDS.split())
# Phrases that fill a slot but are not options: a role, the noun that carries an adjective, and a misprint of
# "foolish".
FILLERS = (
    *("first-year student", "second-year student", "teacher", "fool", "nature", "spirit", "disposition"),
    *("acumen", "attitude", "behavior", "behaviour", "demeanor", "demeanour"),
)
_STEMMER = snowballstemmer.stemmer("english")

Phrases = dict[str, set[tuple[str, ...]]]  # first stem -> phrases that begin with it, as stems


def infer_templates(contexts: pd.Series, options: Iterable[str]) -> pd.Series:
    """Name the template of each sentence.

    `contexts` are sentences of one language, `options` all phrases that may fill a slot. If the options of
    only one direction are known, stimuli stay in the sentences: a name then identifies the pronoun forms of a
    template with one stimulus.

    >>> contexts = pd.Series(["The man from Peru is BLANK.", "The women from Chad are BLANK."])
    >>> infer_templates(contexts, ["Peru", "Chad"]).tolist()
    ['* blank', '* blank']
    """
    phrases: Phrases = {}
    for option in {*options, *FILLERS}:
        if stems := _stems(option):
            phrases.setdefault(stems[0], set()).add(stems)
    names = {context: _name(_stems(context), phrases) for context in contexts.unique()}
    return contexts.map(names)


def _name(stems: tuple[str, ...], phrases: Phrases) -> str:
    """Replace the longest phrases, and numbers, by `SLOT`, and join the unique words in order."""
    words, i = set(), 0
    while i < len(stems):
        matches = (phrase for phrase in phrases.get(stems[i], ()) if stems[i : i + len(phrase)] == phrase)
        length = max(map(len, matches), default=int(stems[i].isdigit()))
        words.add(SLOT if length else stems[i])
        i += length or 1
    return " ".join(sorted(words))


def _stems(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(_stem, WORD.findall(text))))


@lru_cache(2**16)
def _stem(word: str) -> str:
    # Stemmed until stable: "friendliness" is first "friendli", but "friendly" is "friend".
    stem, next_stem = "", word.lower()
    if next_stem in DROPPED:
        return ""
    while stem != next_stem:
        stem, next_stem = next_stem, _STEMMER.stemWord(next_stem)
    return stem
