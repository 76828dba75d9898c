"""Infer the sentence templates and the stimuli of items from the sentences and options.

The sentences of a template differ in pronoun form, stimulus and person. These differences are removed: words
that mark gender, or singular and plural, are dropped. Phrases that are options of some item (a stimulus of
one direction is an option of the other) become a slot, as do numerals. The remaining words, in any order,
name the template; the phrases in its slots name the stimulus.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import pandas as pd
import snowballstemmer

SLOT = "*"
# Chinese has no spaces: each character is a word.
WORD = re.compile(r"\d+|[\u4e00-\u9fff]|[^\W\d_\u4e00-\u9fff]+")
# Words that vary with pronoun form and person: pronouns, gendered nouns, the articles, prepositions and verbs
# next to them, and two first names of the published items; 确 is a misprint of 群 there.
AGREEMENT_WORDS = (
    "he she they him her them his hers their theirs himself herself themselves who s ve my "
    "man men woman women male males female females boy boys girl girls people person persons native natives "
    "everyone every few jhon meredith a an the and that of in from "
    "is are was were be been being has have had "
    "他 她 们 这 那 个 群 确 男 女 人 的 一"
)
DROPPED = frozenset(AGREEMENT_WORDS.split())
# Phrases that fill a slot but are not options: roles, nouns after an adjective, and a misprint of "foolish".
FILLERS = (
    *("first-year student", "second-year student", "teacher", "fool", "nature", "spirit", "disposition"),
    *("acumen", "attitude", "behavior", "behaviour", "demeanor", "demeanour"),
)
_STEMMER = snowballstemmer.stemmer("english")

Stems = tuple[str, ...]
Phrases = dict[str, set[Stems]]  # first stem -> phrases that begin with it, as stems


def infer_templates(contexts: pd.Series, options: Iterable[str]) -> pd.Series:
    """Name the template of each sentence.

    `contexts` are sentences of one language, `options` all phrases that may fill a slot. If only the options
    of one direction are known, stimuli remain in the sentences: a name then stands for a template with one
    stimulus.

    >>> contexts = pd.Series(["The man from Peru is BLANK.", "The women from Chad are BLANK."])
    >>> infer_templates(contexts, ["Peru", "Chad"]).tolist()
    ['* blank', '* blank']
    """
    phrases = _collect_phrases(options)
    names = {context: _name_template(_split(_stem_words(context), phrases)) for context in contexts.unique()}
    return contexts.map(names)


def infer_stimuli(contexts: pd.Series, options: Sequence[Sequence[str]]) -> pd.Series:
    """Name the stimulus of each sentence: the stems of the phrases in its slots.

    `options` are the options of each sentence. A sentence's own options are not part of its stimulus;
    `FILLERS` are part of it only if its slots have no other phrase. A sentence without a stimulus gets the
    name of its template.

    >>> contexts = pd.Series(["The man from Peru is BLANK.", "Of three aged 30, 65 and 47, BLANK is kind."])
    >>> infer_stimuli(contexts, [["kind", "rude", "tall"], ["30", "65", "Peru"]]).tolist()
    ['peru', '47 kind']
    """
    phrases = _collect_phrases(option for item_options in options for option in item_options)
    fillers = {_stem_words(filler) for filler in FILLERS}
    names = []
    for context, item_options in zip(contexts, options, strict=True):
        pieces = [*_split(_stem_words(context), phrases)]
        excluded = {_stem_words(option) for option in item_options}
        slots = dict.fromkeys(piece for piece, is_slot in pieces if is_slot and piece not in excluded)
        stimulus = [piece for piece in slots if piece not in fillers] or slots
        names.append(" ".join(" ".join(piece) for piece in stimulus) or _name_template(pieces))
    return pd.Series(names, contexts.index, dtype=object)


def _collect_phrases(options: Iterable[str]) -> Phrases:
    phrases: Phrases = {}
    for option in {*options, *FILLERS}:
        if stems := _stem_words(option):
            phrases.setdefault(stems[0], set()).add(stems)
    return phrases


def _split(stems: Stems, phrases: Phrases) -> Iterator[tuple[Stems, bool]]:
    """Split stems into pieces; yield each piece, and whether it fills a slot.

    A piece is the longest phrase of an option that starts there, or else a single word. Phrases and numerals
    fill a slot, other words do not.
    """
    i = 0
    while i < len(stems):
        matches = (phrase for phrase in phrases.get(stems[i], ()) if stems[i : i + len(phrase)] == phrase)
        length = max(map(len, matches), default=int(stems[i].isdigit()))
        yield stems[i : i + (length or 1)], length > 0
        i += length or 1


def _name_template(pieces: Iterable[tuple[Stems, bool]]) -> str:
    """Replace phrases and numbers by `SLOT`, and join the distinct words in alphabetical order."""
    return " ".join(sorted({SLOT if is_slot else piece[0] for piece, is_slot in pieces}))


def _stem_words(text: str) -> Stems:
    return tuple(filter(None, map(_stem, WORD.findall(text))))


@lru_cache(2**16)
def _stem(word: str) -> str:
    # Stemmed until nothing changes: "friendliness" first becomes "friendli", but "friendly" becomes "friend".
    stem, next_stem = "", word.lower()
    if next_stem in DROPPED:
        return ""
    while stem != next_stem:
        stem, next_stem = next_stem, _STEMMER.stemWord(next_stem)
    return stem
