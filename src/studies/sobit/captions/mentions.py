"""How many captions mention a word, name a group, or do both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from src.studies.sobit.captions.lexicon import BOTH, GENDER, RACE, Lexicon, plainly

AXES = (RACE, GENDER, BOTH)


@dataclass
class Counts:
    """Numbers of captions; one counts once, however often it says a word.

    Attributes:
        captions: all.
        words: that mention a word, [words].
        groups: that name a group, [groups].
        both: that do both, [words, groups].
        named: that name any group of an axis of `AXES`, [axes].
        words_named: that mention a word and name any group of the axis, [words, axes].
    """

    captions: int
    words: Int[np.ndarray, " w"]
    groups: Int[np.ndarray, " g"]
    both: Int[np.ndarray, "w g"]
    named: Int[np.ndarray, " a"]
    words_named: Int[np.ndarray, "w a"]

    def add(self, other: Counts) -> None:
        """Add those of other captions."""
        self.captions += other.captions
        for name in ("words", "groups", "both", "named", "words_named"):
            getattr(self, name).__iadd__(getattr(other, name))


def nothing(lexicon: Lexicon) -> Counts:
    """Counts of no captions."""
    words, groups, axes = len(lexicon.words), len(lexicon.groups), len(AXES)
    shapes: tuple[tuple[int, ...], ...] = ((words,), (groups,), (words, groups), (axes,), (words, axes))
    return Counts(0, *(np.zeros(shape, dtype=np.int64) for shape in shapes))


def count(captions: pl.Series, lexicon: Lexicon) -> Counts:
    """Count a batch of captions.

    Upper and lower case are the same; words are whole words, and where a word ends and what joins the words
    of an entry says `lexicon.plainly`. A taxonomy's nouns and all group words count in the plural too.
    Entries of the taxonomy that overlap count each ("old" and "old friend"). Among the words of one axis the
    leftmost and then longest wins: "african-american" does not say "american". A caption names a pair of race
    and gender if it has a word of each, be it of one person or of two.

    Args:
        captions: texts without nulls.
        lexicon: what is looked for.
    """
    plain = captions.to_frame("text").select(text=plainly(pl.col("text")))
    found = plain.select(
        words=pl.col("text").str.extract_many(_patterns(lexicon.sought), overlapping=True),
        race=pl.col("text").str.extract_many(_patterns(lexicon.named[0]), leftmost=True),
        gender=pl.col("text").str.extract_many(_patterns(lexicon.named[1]), leftmost=True),
    ).with_row_index("caption")
    race, gender = (
        _members(found, axis, forms, len(lexicon.members(axis)))
        for axis, forms in zip((RACE, GENDER), lexicon.named, strict=True)
    )
    pairs = (race[:, :, None] & gender[:, None, :]).reshape(len(captions), race.shape[1] * gender.shape[1])
    named = np.stack([members.any(axis=1) for members in (race, gender, pairs)], axis=1)
    groups = np.concatenate([race, gender, pairs], axis=1)
    caption, word = _pairs(found, "words", lexicon.sought)
    size = len(lexicon.words)
    return Counts(
        len(captions),
        np.bincount(word, minlength=size),
        groups.sum(axis=0),
        _together(word, groups[caption], size),
        named.sum(axis=0),
        _together(word, named[caption], size),
    )


def _patterns(forms: pl.DataFrame) -> pl.Expr:
    # Of no patterns it could not tell the type.
    return pl.lit(forms["form"].unique(maintain_order=True).to_list(), dtype=pl.List(pl.String))


def _pairs(found: pl.DataFrame, column: str, forms: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Which caption has which code, each pair once."""
    said = found.select("caption", form=pl.col(column)).explode("form").drop_nulls()
    pairs = said.join(forms, on="form").select("caption", "code").unique()
    return pairs["caption"].to_numpy().astype(np.int64), pairs["code"].to_numpy()


def _members(
    found: pl.DataFrame, column: str, forms: pl.DataFrame, groups: int
) -> Bool[np.ndarray, "captions groups"]:
    members = np.zeros((len(found), groups), dtype=bool)
    members[_pairs(found, column, forms)] = True
    return members


def _together(
    word: Int[np.ndarray, " m"], flags: Bool[np.ndarray, "m f"], size: int
) -> Int[np.ndarray, "size f"]:
    """How often each word stands with each flag."""
    columns = [np.bincount(word[flag], minlength=size) for flag in flags.T]
    return np.stack(columns, axis=1) if columns else np.zeros((size, 0), dtype=np.int64)
