"""What is looked for in captions: the words of a taxonomy, and the words that name groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import inflect
import pandas as pd
import polars as pl

from src.errors import InputError

RACE, GENDER, BOTH = "race", "gender", "both"
NOUN = "noun"
# What inflect makes "gentlemans" and "thiefs" of.
IRREGULAR = {"gentleman": "gentlemen", "thief": "thieves"}
LETTER = r"\p{L}\p{M}\p{N}"
# They stand within words, unseen: soft hyphen, joiners, byte order mark.
UNSEEN = r"[\x{ad}\x{200c}\x{200d}\x{2060}\x{feff}]"
# Hyphen-minus, hyphen, non-breaking hyphen; dashes part words.
HYPHENS = "-\u2010\u2011"
BREAK = " | "


@dataclass(frozen=True)
class Lexicon:
    """What is looked for.

    Attributes:
        words: `word`, `type`: each once, whatever its categories; its row is its code.
        groups: `axis`, `group`: race, then gender, then both (every race with every gender).
        sought: `form`, `code` of the words, forms as `plainly` writes them.
        named: of race and of gender, likewise; the code is the row within the axis.
    """

    words: pd.DataFrame
    groups: pd.DataFrame
    sought: pl.DataFrame
    named: tuple[pl.DataFrame, pl.DataFrame]

    def members(self, axis: str) -> list[str]:
        """Names of the groups of an axis."""
        return [str(name) for name in self.groups.loc[self.groups["axis"] == axis, "group"]]


def plainly(texts: pl.Expr) -> pl.Expr:
    """Texts in the one way of writing in which words are looked for.

    Lower case, Unicode NFC. A word is a run of letters, marks and digits of any script; soft hyphens and
    joiners that nobody sees are dropped. Words that one hyphen or white space of any length joins have two
    blanks between them, so that each keeps a blank of its own on both sides; anything else that stands
    between words (an apostrophe, a comma, a dash, a hyphen beside a blank) becomes ` | `, over which no
    entry of several words reaches.

    >>> pl.DataFrame({"t": ["A Third-World  man's"]}).select(plainly(pl.col("t"))).item()
    ' a  third  world  man | s '
    """
    lowered = texts.str.to_lowercase().str.normalize("NFC").str.replace_all(UNSEEN, "")
    joined = lowered.str.replace_all(r"\s+", " ").str.replace_all(rf"[^{LETTER}]{{2,}}", "|")
    parted = joined.str.replace_all(rf"[^{LETTER} {HYPHENS[1:]}-]", "|")
    return " " + parted.str.replace_many([" ", *HYPHENS, "|"], [*["  "] * 4, BREAK]) + " "


def forms(word: str, noun: bool) -> list[str]:
    """How a word may stand in a caption: as it is, and of a noun its plural (inflect).

    >>> forms("criminal", True), forms("calm", False), forms("third-world", False)
    (['criminal', 'criminals'], ['calm'], ['third-world'])
    """
    return list(dict.fromkeys([word, _plural(word)] if noun else [word]))


def names(listed: Sequence[str]) -> list[str]:
    """How the words of a group may stand in a caption: each also in the plural, but for those that are one.

    >>> names(["korean", "koreans", "englishman"])
    ['korean', 'koreans', 'englishman', 'englishmen']
    """
    plurals = {_plural(word) for word in listed}
    return list(dict.fromkeys(form for word in listed for form in forms(word, word.lower() not in plurals)))


def _plural(word: str) -> str:
    # In capitals it would add a capital S.
    return str(_engine().plural_noun(word.lower()))


@cache
def _engine() -> Any:  # its texts have a type of their own
    engine: Any = inflect.engine()
    for one, many in IRREGULAR.items():
        engine.defnoun(one, many)
    return engine


def lexicon(
    words: pd.DataFrame, races: Mapping[str, Sequence[str]], genders: Mapping[str, Sequence[str]]
) -> Lexicon:
    """What is looked for.

    Args:
        words: of a taxonomy: `word` and `type`; a word in several categories is looked for once. Nouns are
            also looked for in the plural; adjectives and activities as they are written.
        races, genders: group -> words that name it, each also in the plural.

    Raises:
        InputError: a word has no letter or digit.
    """
    distinct = words[["word", "type"]].drop_duplicates(ignore_index=True)
    pairs = zip(distinct["word"], distinct["type"], strict=True)
    sought = [(form, code) for code, (word, kind) in enumerate(pairs) for form in forms(word, kind == NOUN)]
    named = [
        [(form, code) for code, listed in enumerate(axis.values()) for form in names(listed)]
        for axis in (races, genders)
    ]
    groups = [(RACE, race) for race in races] + [(GENDER, gender) for gender in genders]
    groups += [(BOTH, f"{race} {gender}") for race in races for gender in genders]
    race, gender = (_written(axis) for axis in named)
    return Lexicon(
        distinct, pd.DataFrame(groups, columns=["axis", "group"]), _written(sought), (race, gender)
    )


def _written(pairs: Iterable[tuple[str, int]]) -> pl.DataFrame:
    """`form`, `code`, the longest form first: of two that begin at one place the first is taken."""
    frame = pl.DataFrame(list(pairs), schema={"word": pl.String, "code": pl.Int64}, orient="row")
    frame = frame.with_columns(form=" " + plainly(pl.col("word")).str.strip_chars(" |") + " ")
    bare = frame.filter(pl.col("form").str.strip_chars() == "")
    if len(bare):
        raise InputError(f"{bare['word'][0]!r}: a word without a letter cannot be looked for. Take it out.")
    order = pl.col("form").str.len_bytes()
    return (
        frame.select("form", "code")
        .unique(maintain_order=True)
        .sort(order, descending=True, maintain_order=True)
    )
