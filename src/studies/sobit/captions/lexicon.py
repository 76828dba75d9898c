"""Build the lexicon of captions: the words of a taxonomy, and the words that name groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import inflect
import pandas as pd
import polars as pl

from src.errors import InputError

RACE, GENDER, BOTH = "race", "gender", "both"
NOUN = "noun"
INFLECT: Any = inflect.engine()  # Any: inflect has its own text type
# Without these, inflect returns "gentlemans" and "thiefs".
INFLECT.defnoun("gentleman", "gentlemen")
INFLECT.defnoun("thief", "thieves")
CHARACTERS = r"\p{L}\p{M}\p{N}"  # characters of words, for a character class
# Invisible characters within words: soft hyphen, joiners, byte order mark.
INVISIBLE = r"[\x{ad}\x{200c}\x{200d}\x{2060}\x{feff}]"
# Hyphen-minus, hyphen, non-breaking hyphen; dashes separate words.
HYPHENS = "-\u2010\u2011"
SEPARATOR = " | "  # between words that are not joined; no entry of several words matches across it


@dataclass(frozen=True)
class Lexicon:
    """The words and groups that captions are searched for."""

    words: pd.DataFrame  # distinct `word` and `type`; the row is the word's code
    groups: pd.DataFrame  # `axis`, `group`: those of each axis of the labels, then their combinations
    word_forms: pl.DataFrame  # `form` (see `normalise`) and `code` of the words
    # `form` and `code` of the groups of each axis of the labels; the code is the row within the axis.
    group_forms: tuple[pl.DataFrame, ...]
    axes: tuple[str, ...]  # axes of the labels and, if there are several, their combination

    def list_groups(self, axis: str) -> list[str]:
        """List the names of the groups of an axis."""
        return [str(name) for name in self.groups.loc[self.groups["axis"] == axis, "group"]]


def normalise(texts: pl.Expr) -> pl.Expr:
    """Normalise texts to the form in which words are searched for: lower case, Unicode NFC, words in spaces.

    A word is a run of letters, marks and digits of any script; soft hyphens and invisible joiners are
    dropped. Between words that are joined by a single hyphen or by white space there are two spaces, so that
    each word has a space on either side. Anything else between words (an apostrophe, a comma, a dash, a
    hyphen next to a space) becomes ` | `, across which no entry of several words matches.

    >>> pl.DataFrame({"t": ["A Third-World  man's"]}).select(normalise(pl.col("t"))).item()
    ' a  third  world  man | s '
    """
    lowered = texts.str.to_lowercase().str.normalize("NFC").str.replace_all(INVISIBLE, "")
    spaced = lowered.str.replace_all(r"\s+", " ").str.replace_all(rf"[^{CHARACTERS}]{{2,}}", "|")
    separated = spaced.str.replace_all(rf"[^{CHARACTERS} {HYPHENS[1:]}-]", "|")
    return " " + separated.str.replace_many([" ", *HYPHENS, "|"], [*["  "] * 4, SEPARATOR]) + " "


def list_forms(word: str, *, is_noun: bool) -> list[str]:
    """List the forms of a word in captions: as written, and the plural of a noun (inflect).

    >>> list_forms("criminal", is_noun=True), list_forms("calm", is_noun=False)
    (['criminal', 'criminals'], ['calm'])
    """
    return list(dict.fromkeys([word, _pluralise(word)] if is_noun else [word]))


def list_group_forms(words: Sequence[str]) -> list[str]:
    """List the forms of a group's words: as written, and plurals of words that are not plurals.

    >>> list_group_forms(["korean", "koreans", "englishman"])
    ['korean', 'koreans', 'englishman', 'englishmen']
    """
    plurals = {_pluralise(word) for word in words}
    forms = [form for word in words for form in list_forms(word, is_noun=word.lower() not in plurals)]
    return list(dict.fromkeys(forms))


def _pluralise(word: str) -> str:
    # In lower case, because inflect adds a capital S to words in capitals.
    return str(INFLECT.plural_noun(word.lower()))


def build_lexicon(words: pd.DataFrame, axes: Mapping[str, Mapping[str, Sequence[str]]]) -> Lexicon:
    """Build the lexicon of captions from a taxonomy's words and those of labels: axis -> group -> words.

    A word in several categories is searched for once. Nouns and words of groups are also searched for in the
    plural; adjectives and activities as written.

    Raises:
        InputError: a word has no letter or digit.
    """
    distinct = words[["word", "type"]].drop_duplicates(ignore_index=True)
    pairs = zip(distinct["word"], distinct["type"], strict=True)
    word_forms = [
        (form, code)
        for code, (word, kind) in enumerate(pairs)
        for form in list_forms(word, is_noun=kind == NOUN)
    ]
    group_forms = [
        [
            (form, code)
            for code, group_words in enumerate(axis.values())
            for form in list_group_forms(group_words)
        ]
        for axis in axes.values()
    ]
    groups = [(axis, group) for axis, words_by_group in axes.items() for group in words_by_group]
    names = (*axes,)
    if len(axes) > 1:
        names = (*axes, BOTH if [*axes] == [RACE, GENDER] else ":".join(axes))
        groups += [(names[-1], " ".join(combination)) for combination in product(*axes.values())]
    table = pd.DataFrame(groups, columns=["axis", "group"])
    normalised = tuple(map(_normalise_forms, group_forms))
    return Lexicon(distinct, table, _normalise_forms(word_forms), normalised, names)


def _normalise_forms(coded_forms: Iterable[tuple[str, int]]) -> pl.DataFrame:
    """Normalise forms; return `form` and `code`, longest first, because the first of two matches counts."""
    frame = pl.DataFrame(list(coded_forms), schema={"word": pl.String, "code": pl.Int64}, orient="row")
    frame = frame.with_columns(form=" " + normalise(pl.col("word")).str.strip_chars(" |") + " ")
    wordless = frame.filter(pl.col("form").str.strip_chars() == "")
    if len(wordless):
        raise InputError(
            f"{wordless['word'][0]!r}: a word without a letter or digit cannot be searched for. Remove it."
        )
    distinct = frame.select("form", "code").unique(maintain_order=True)
    return distinct.sort(pl.col("form").str.len_bytes(), descending=True, maintain_order=True)
