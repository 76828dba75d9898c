"""Count captions that mention a word, name a group, or do both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int
from scipy.sparse import csr_array

from src.studies.sobit.captions.lexicon import BOTH, GENDER, RACE, Lexicon, normalise

AXES = (RACE, GENDER, BOTH)


@dataclass
class Counts:
    """Numbers of captions; a caption counts once, however often it mentions a word."""

    captions: int
    words: Int[np.ndarray, " w"]  # captions that mention a word, [words]
    groups: Int[np.ndarray, " g"]  # captions that name a group, [groups]
    both: Int[np.ndarray, "w g"]  # captions that do both, [words, groups]
    named: Int[np.ndarray, " a"]  # captions that name any group of an axis of `AXES`, [axes]
    # Captions that mention a word and name any group of the axis, [words, axes].
    words_named: Int[np.ndarray, "w a"]

    def add(self, other: Counts) -> None:
        """Add the counts of other captions."""
        self.captions += other.captions
        for name in ("words", "groups", "both", "named", "words_named"):
            getattr(self, name).__iadd__(getattr(other, name))


def zero_counts(lexicon: Lexicon) -> Counts:
    """Return counts of zero captions, to which others are added."""
    return count(pl.Series([], dtype=pl.String), lexicon)


def count(captions: pl.Series, lexicon: Lexicon) -> Counts:
    """Count a batch of captions, texts without nulls.

    Case is ignored; only whole words count, and `lexicon.normalise` defines where a word ends and what joins
    the words of an entry. A taxonomy's nouns and all group words count in the plural too.
    Overlapping entries of the taxonomy each count ("old" and "old friend"). Among the words of one axis the
    leftmost and then longest wins: "african-american" is no mention of "american". A caption names a pair of
    race and gender if it has a word of each, whether about one person or two.
    """
    texts = captions.to_frame("text").select(text=normalise(pl.col("text")))
    matches = texts.select(
        words=pl.col("text").str.extract_many(_patterns(lexicon.word_forms), overlapping=True),
        race=pl.col("text").str.extract_many(_patterns(lexicon.group_forms[0]), leftmost=True),
        gender=pl.col("text").str.extract_many(_patterns(lexicon.group_forms[1]), leftmost=True),
    ).with_row_index("caption")
    words = _mentions(matches, "words", lexicon.word_forms, len(lexicon.words))
    race, gender = (
        _mentions(matches, axis, forms, len(lexicon.members(axis))).toarray() > 0
        for axis, forms in zip((RACE, GENDER), lexicon.group_forms, strict=True)
    )
    pairs = (race[:, :, None] & gender[:, None, :]).reshape(len(captions), race.shape[1] * gender.shape[1])
    named = np.stack([members.any(axis=1) for members in (race, gender, pairs)], axis=1)
    groups = np.concatenate([race, gender, pairs], axis=1)
    totals = words.sum(axis=0), groups.sum(axis=0)
    return Counts(len(captions), *totals, words.T @ groups, named.sum(axis=0), words.T @ named)


def _patterns(forms: pl.DataFrame) -> pl.Expr:
    # The type is explicit because polars infers none from an empty list.
    return pl.lit(forms["form"].unique(maintain_order=True).to_list(), dtype=pl.List(pl.String))


def _mentions(matches: pl.DataFrame, column: str, forms: pl.DataFrame, codes: int) -> csr_array:
    """Return a [captions, codes] matrix, 1 where a caption has a form of a code, however often."""
    mentioned = matches.select("caption", form=pl.col(column)).explode("form").drop_nulls()
    pairs = mentioned.join(forms, on="form").select("caption", "code").unique()
    ones = np.ones(len(pairs), dtype=np.int64)
    return csr_array((ones, (pairs["caption"], pairs["code"])), shape=(len(matches), codes))
