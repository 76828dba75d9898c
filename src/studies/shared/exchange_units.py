"""Define the exchange units of a corpus, which carry its property (valence or group) and may be permuted.

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
    """Factor whose levels are exchanged: faces, scenes, words, race words or gender words."""

    # Arrays [n, s] whose rows, of s levels each, are exchanged for one another.
    blocks: tuple[np.ndarray, ...]
    size: int  # number of levels

    def draw_permutation(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a permutation that maps each level to the level it replaces."""
        levels = np.arange(self.size)
        for block in self.blocks:
            levels[block] = block[rng.permutation(len(block))]
        return levels


@dataclass(frozen=True)
class Exchange:
    """Exchange units of a corpus and their permutations."""

    grid: np.ndarray  # [units, copies] rows of the corpus's table: a word has a row in each template
    # [units, factors] indices of levels: a phrase's race word and gender word, or the unit's only level.
    levels: np.ndarray
    factors: tuple[Factor, ...]  # one or two factors
    names: np.ndarray  # names of the units
    # Seed and hash of the corpus: all models, strata and experiments share the permutations.
    seed: tuple[int, ...]

    @cached_property
    def unit_of_row(self) -> np.ndarray:
        """Map each row to its unit."""
        units = np.empty(self.grid.size, dtype=np.int64)
        units[self.grid] = np.arange(len(self.grid))[:, None]
        return units

    @cached_property
    def copy_of_row(self) -> np.ndarray:
        """Map each row to its index among the copies of its unit."""
        copies = np.empty(self.grid.size, dtype=np.int64)
        copies[self.grid] = np.arange(self.grid.shape[1])[None]
        return copies

    @cached_property
    def _unit_of_levels(self) -> np.ndarray:
        units = np.full([factor.size for factor in self.factors], -1)
        units[tuple(self.levels.T)] = np.arange(len(self.levels))
        return units

    def permutations(self, count: int, *seed_suffix: int) -> np.ndarray:
        """Draw permutations π_r that map each unit to the unit it replaces, [count, units].

        Earlier permutations do not depend on `count`; `seed_suffix` extends the seed, for permutations of
        another kind.
        """
        permutations = np.empty((count, len(self.grid)), dtype=np.int32)
        for number in range(count):
            rng = np.random.default_rng([*self.seed, number, *seed_suffix])
            permuted_levels = [factor.draw_permutation(rng) for factor in self.factors]
            levels = [permuted[self.levels[:, index]] for index, permuted in enumerate(permuted_levels)]
            permutations[number] = self._unit_of_levels[tuple(levels)]
        return permutations

    def permuted_rows(self, rows: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        """Return the table's rows that `rows` [n] replace in R permutations, [R, n], within a template."""
        return np.asarray(self.grid[permutations[:, self.unit_of_row[rows]], self.copy_of_row[rows]])

    def restrict(self, labels: Sequence[np.ndarray]) -> Exchange:
        """Return an exchange of levels of the same label only; `labels` has an array [levels] per factor."""
        factors = []
        for factor, level_labels in zip(self.factors, labels, strict=True):
            names = np.unique(level_labels)
            blocks = tuple(np.flatnonzero(level_labels == name)[:, None] for name in names)
            factors.append(replace(factor, blocks=blocks))
        return replace(self, factors=tuple(factors))

    def families(self, stems: Sequence[str]) -> Exchange:
        """Return an exchange of whole families, units of the same stem, among families of equal size.

        Units of a stem in different blocks form separate families.
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
    """Build the exchange units of a corpus; `seed` is that of the permutations.

    Units are scenes, faces, or words or phrases with all their sentences. Race words and
    gender words are exchanged separately if crossed (`_crossed_levels`), phrases as a whole otherwise.
    """
    frame = corpus.frame
    if corpus.role in IMAGE_ROLES:
        names, unit = frame["id"].to_numpy(), np.arange(len(frame))
        grid = unit[:, None]
    else:
        unit, words = pd.factorize(frame["word"], sort=True)
        names = words.to_numpy()
        copy, _ = pd.factorize(frame["template"], sort=True)
        grid = np.empty((len(names), copy.max() + 1), dtype=np.int64)
        grid[unit, copy] = np.arange(len(frame))
    levels = np.arange(len(names))[:, None]
    if corpus.role == "labels":
        levels = _crossed_levels(frame.iloc[grid[:, 0]], levels)
    factors = tuple(Factor((np.arange(size)[:, None],), size) for size in (levels.max(axis=0) + 1).tolist())
    return Exchange(grid, levels, factors, names, (seed, int(corpus.hash[:16], 16)))


def label_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return race word and gender word of each row; without such columns split phrases at the last space."""
    if {"race_word", "gender_word"} <= set(frame.columns):
        return frame[["race_word", "gender_word"]]
    split = frame["word"].str.rpartition(" ")
    return pd.DataFrame({"race_word": split[0], "gender_word": split[2]}, index=frame.index)


def _crossed_levels(phrases: pd.DataFrame, uncrossed: np.ndarray) -> np.ndarray:
    """Return levels of race word and gender word, [phrases, 2], if each pair occurs exactly once.

    Otherwise, or where a guessed split leaves a word without an equivalent, return `uncrossed`.
    """
    words = label_words(phrases)
    race, race_words = pd.factorize(words["race_word"], sort=True)
    gender, gender_words = pd.factorize(words["gender_word"], sort=True)
    pairs = len(set(zip(race, gender, strict=True)))
    if pairs < len(phrases) or pairs < len(race_words) * len(gender_words):
        return uncrossed
    levels = np.stack([race, gender], axis=1)
    groups = pd.factorize(phrases["group"])[0]
    # Without columns of words the split is a guess, likely wrong if no other word names the same groups.
    level_sets = [*equivalent_levels(levels, groups, 0), *equivalent_levels(levels, groups, 1)]
    if "race_word" not in phrases and any(len(level_set) < 2 for level_set in level_sets):
        return uncrossed
    return levels


def equivalent_levels(levels: np.ndarray, groups: np.ndarray, factor: int) -> Iterator[np.ndarray]:
    """Yield sets of levels of a factor that name the same groups, such as the race words of a race.

    `levels` are [units, factors], `groups` [units]; `factor` is the index of a factor.
    """
    other_levels = np.delete(levels, factor, axis=1)
    order = np.lexsort([*other_levels.T, levels[:, factor]])
    signature = pd.Series(groups[order]).groupby(levels[order, factor]).agg(tuple)
    for _, equivalent in signature.groupby(signature, sort=True):
        yield equivalent.index.to_numpy()
