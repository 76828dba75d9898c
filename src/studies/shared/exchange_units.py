"""Exchange units of a corpus: what carries the property, and may be permuted.

See docs/methods.md, section 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from src.stimuli import IMAGE_ROLES, Table


@dataclass(frozen=True)
class Factor:
    """Something that is exchanged: faces, scenes, words, race words or gender words.

    Attributes:
        blocks: each [n, s]: its rows, of s levels each, are exchanged for one another.
        size: number of levels.
    """

    blocks: tuple[np.ndarray, ...]
    size: int

    def permuted(self, rng: np.random.Generator) -> np.ndarray:
        """Level -> the level in whose place it is put."""
        found = np.arange(self.size)
        for block in self.blocks:
            found[block] = block[rng.permutation(len(block))]
        return found


@dataclass(frozen=True)
class Exchange:
    """The exchange units of a corpus and how they are permuted.

    Attributes:
        grid: [units, copies] rows of the corpus's table: a word has a row in each template.
        levels: [units, factors]: a phrase has a race word and a gender word, any other unit itself.
        factors: one or two.
        names: of the units.
        seed: of the permutations, with the hash of the corpus: all models, strata and experiments share them.
    """

    grid: np.ndarray
    levels: np.ndarray
    factors: tuple[Factor, ...]
    names: np.ndarray
    seed: tuple[int, ...]

    @cached_property
    def unit(self) -> np.ndarray:
        """Row -> its unit."""
        found = np.empty(self.grid.size, dtype=np.int64)
        found[self.grid] = np.arange(len(self.grid))[:, None]
        return found

    @cached_property
    def copy(self) -> np.ndarray:
        """Row -> which of its unit's copies it is."""
        found = np.empty(self.grid.size, dtype=np.int64)
        found[self.grid] = np.arange(self.grid.shape[1])[None]
        return found

    @cached_property
    def _lookup(self) -> np.ndarray:
        found = np.full([factor.size for factor in self.factors], -1)
        found[tuple(self.levels.T)] = np.arange(len(self.levels))
        return found

    def permutations(self, count: int, *more: int) -> np.ndarray:
        """[count, units]: unit -> the unit in whose place it is put, π_r.

        Args:
            count: how many; the first ones do not depend on it.
            more: appended to the seed, for permutations of another kind.
        """
        found = np.empty((count, len(self.grid)), dtype=np.int32)
        for number in range(count):
            rng = np.random.default_rng([*self.seed, number, *more])
            moved = [factor.permuted(rng) for factor in self.factors]
            places = [one[self.levels[:, index]] for index, one in enumerate(moved)]
            found[number] = self._lookup[tuple(places)]
        return found

    def moved(self, rows: np.ndarray, permuted: np.ndarray) -> np.ndarray:
        """[R, n] rows of the corpus's table in whose place `rows` [n] are put; templates stay.

        Args:
            rows: of the table.
            permuted: [R, units], see `permutations`.
        """
        found: np.ndarray = self.grid[permuted[:, self.unit[rows]], self.copy[rows]]
        return found

    def within(self, part: Sequence[np.ndarray]) -> Exchange:
        """The same, permuted only among units of one part.

        Args:
            part: [factors][levels]: label of each level's part.
        """
        factors = []
        for factor, parts in zip(self.factors, part, strict=True):
            blocks = tuple(np.flatnonzero(parts == name)[:, None] for name in np.unique(parts))
            factors.append(replace(factor, blocks=blocks))
        return replace(self, factors=tuple(factors))

    def families(self, stems: Sequence[str]) -> Exchange:
        """The same, permuted by whole families of units, among families of one size.

        Families do not cross the parts that units are exchanged within.

        Args:
            stems: [units]: units of one stem are a family.
        """
        (factor,) = self.factors
        blocks = []
        for block in factor.blocks:
            units = pd.Series(block[:, 0]).groupby([stems[unit] for unit in block[:, 0]], sort=True)
            by_size: dict[int, list[np.ndarray]] = {}
            for _, family in units:
                by_size.setdefault(len(family), []).append(family.to_numpy())
            blocks += [np.stack(rows) for _, rows in sorted(by_size.items())]
        return replace(self, factors=(replace(factor, blocks=tuple(blocks)),))


def exchange_of(corpus: Table, seed: int) -> Exchange:
    """The exchange units of a corpus.

    Words (their sentences together), scenes, faces; of labels race words and gender words where each meets
    each once, else phrases.

    Args:
        corpus: the stimuli.
        seed: of the permutations.
    """
    frame = corpus.frame
    if corpus.role in IMAGE_ROLES:
        names, unit = frame["id"].to_numpy(), np.arange(len(frame))
        grid = unit[:, None]
    else:
        unit, found = pd.factorize(frame["word"], sort=True)
        names = found.to_numpy()
        copy, _ = pd.factorize(frame["template"], sort=True)
        grid = np.empty((len(names), copy.max() + 1), dtype=np.int64)
        grid[unit, copy] = np.arange(len(frame))
    levels = np.arange(len(names))[:, None]
    if corpus.role == "labels":
        levels = _crossed(frame.iloc[grid[:, 0]], levels)
    factors = tuple(Factor((np.arange(size)[:, None],), size) for size in (levels.max(axis=0) + 1).tolist())
    return Exchange(grid, levels, factors, names, (seed, int(corpus.hash[:16], 16)))


def label_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Race word and gender word of each row; without such columns a phrase splits at its last blank."""
    if {"race_word", "gender_word"} <= set(frame.columns):
        return frame[["race_word", "gender_word"]]
    split = frame["word"].str.rpartition(" ")
    return pd.DataFrame({"race_word": split[0], "gender_word": split[2]}, index=frame.index)


def _crossed(phrases: pd.DataFrame, singly: np.ndarray) -> np.ndarray:
    found = label_words(phrases)
    race, race_words = pd.factorize(found["race_word"], sort=True)
    gender, gender_words = pd.factorize(found["gender_word"], sort=True)
    pairs = len(set(zip(race, gender, strict=True)))
    if pairs < len(phrases) or pairs < len(race_words) * len(gender_words):
        return singly
    levels = np.stack([race, gender], axis=1)
    groups = pd.factorize(phrases["group"])[0]
    # Where nobody says which word is which, a word that is alone in its class is hardly one of several.
    guessed = "race_word" not in phrases
    if guessed and any(len(same) < 2 for number in (0, 1) for same in alike(levels, groups, number)):
        return singly
    return levels


def alike(levels: np.ndarray, groups: np.ndarray, number: int) -> Iterator[np.ndarray]:
    """Levels of a factor that name the same groups, with whatever other level: the race words of a race.

    Args:
        levels: [units, factors].
        groups: [units].
        number: of the factor.
    """
    others = np.delete(levels, number, axis=1)
    order = np.lexsort([*others.T, levels[:, number]])
    signature = pd.Series(groups[order]).groupby(levels[order, number]).agg(tuple)
    for _, same in signature.groupby(signature, sort=True):
        yield same.index.to_numpy()
