"""Exchange clusters of a corpus, with the property (valence or group) that they carry.

See docs/methods.md, section 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from src.stimuli import IMAGE_ROLES, Table, clusters

# A corpus is not permuted with fewer placements, or where a smaller share of its items can change place.
MIN_PLACEMENTS = 1000
MIN_MOVABLE = 0.5


@dataclass(frozen=True)
class Factor:
    """Factor whose clusters are exchanged: of faces, scenes, words, race words or gender words.

    Attributes:
        clusters: [levels] number of each level's cluster.
        signatures: [clusters] groups that a cluster names; empty if it mixes several, or for valence.
        blocks: arrays [m, s] of levels; the m rows, clusters of s levels each, are exchanged for one another.
    """

    clusters: np.ndarray
    signatures: tuple[tuple[str, ...], ...]
    blocks: tuple[np.ndarray, ...]

    def draw_permutation(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a permutation that maps each level to the level it replaces."""
        levels = np.arange(len(self.clusters))
        for block in self.blocks:
            levels[block] = block[rng.permutation(len(block))]
        return levels

    def count(self, group: str | None) -> tuple[float, np.ndarray]:
        """Return log10 of the number of placements of a group, or of all values, and the movable levels."""
        log_placements, is_movable = 0.0, np.zeros(len(self.clusters), dtype=bool)
        for block in self.blocks:
            total, chosen = len(block), len(block)
            if group is not None:
                chosen = sum(group in self.signatures[self.clusters[row[0]]] for row in block)
                log_placements -= (math.lgamma(chosen + 1) + math.lgamma(total - chosen + 1)) / math.log(10)
            log_placements += math.lgamma(total + 1) / math.log(10)
            is_movable[block] = total > 1 if group is None else 0 < chosen < total
        return log_placements, is_movable


@dataclass(frozen=True)
class Exchange:
    """Exchange units of a corpus and their permutations.

    Attributes:
        grid: [units, copies] rows of the corpus's table; a word has a row in each template.
        levels: [units, factors] levels: a phrase's race word and gender word, or the unit itself.
        factors: one or two factors.
        names: [units] names of the units.
        seed: seed and hash of the corpus; all models, strata and experiments share the permutations.
    """

    grid: np.ndarray
    levels: np.ndarray
    factors: tuple[Factor, ...]
    names: np.ndarray
    seed: tuple[int, ...]

    @cached_property
    def unit_of_row(self) -> np.ndarray:
        """Map each row to its unit."""
        return np.asarray(np.argsort(self.grid, axis=None) // self.grid.shape[1])

    @cached_property
    def copy_of_row(self) -> np.ndarray:
        """Map each row to its index among the copies of its unit."""
        return np.asarray(np.argsort(self.grid, axis=None) % self.grid.shape[1])

    @cached_property
    def _unit_of_levels(self) -> np.ndarray:
        units = np.full([len(factor.clusters) for factor in self.factors], -1)
        units[tuple(self.levels.T)] = np.arange(len(self.levels))
        return units

    @property
    def clusters(self) -> int:
        """Count the clusters: of race words and gender words together where these cross."""
        return sum(len(factor.signatures) for factor in self.factors)

    def permutations(self, count: int) -> np.ndarray:
        """Draw permutations π_1 to π_R that map each unit to the unit it replaces, [count, units].

        π_r depends on seed, corpus and r only; π_0 is the identity.
        """
        permutations = np.empty((count, len(self.grid)), dtype=np.int32)
        for number in range(count):
            rng = np.random.default_rng([*self.seed, number + 1])
            permuted_levels = [factor.draw_permutation(rng) for factor in self.factors]
            levels = [permuted[self.levels[:, index]] for index, permuted in enumerate(permuted_levels)]
            permutations[number] = self._unit_of_levels[tuple(levels)]
        return permutations

    def permuted_rows(self, rows: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        """Return the table's rows that `rows` [n] replace in R permutations, [R, n], within a template."""
        return np.asarray(self.grid[permutations[:, self.unit_of_row[rows]], self.copy_of_row[rows]])

    def count(self, group: str | None) -> tuple[float, float]:
        """Return log10 of the number of placements of a group (None: of valence), and the movable share.

        The share is that of the units that are exchanged at all.
        """
        counts = [factor.count(group) for factor in self.factors]
        levels = [
            np.unique(np.concatenate([np.empty(0, int), *map(np.ravel, f.blocks)])) for f in self.factors
        ]
        columns = range(len(self.factors))
        is_used = np.all([np.isin(self.levels[:, column], levels[column]) for column in columns], axis=0)
        is_movable = np.any([counts[column][1][self.levels[:, column]] for column in columns], axis=0)
        share = float(is_movable[is_used].mean()) if is_used.any() else 0.0
        return sum(log_placements for log_placements, _ in counts), share

    def refusal(self, group: str | None) -> str:
        """Explain why the property is not permuted, so that it has no placebo; empty where it is."""
        if (self._unit_of_levels < 0).any():
            return "race words and gender words are not fully crossed"
        log_placements, movable = self.count(group)
        if log_placements < math.log10(MIN_PLACEMENTS):
            return f"fewer than {MIN_PLACEMENTS:,} placements"
        return "less than half of the items can change place" if movable < MIN_MOVABLE else ""

    def restrict(self, parts: Sequence[np.ndarray]) -> Exchange:
        """Return an exchange within parts of the corpus; levels of part 0 stay in place.

        Args:
            parts: [levels] number of each level's part, for each factor.
        """
        factors = zip(self.factors, parts, strict=True)
        restricted = [
            replace(factor, blocks=blocks_of(factor.clusters, numbers)) for factor, numbers in factors
        ]
        return replace(self, factors=tuple(restricted))


def exchange_of(corpus: Table, seed: int) -> Exchange:
    """Build the exchange units of a corpus; `seed` is that of the permutations.

    Units are scenes, faces, or words or phrases with all their sentences. Phrases whose clusters cross are
    exchanged by the lemmas of their race words and gender words, all other units by their clusters.
    """
    frame = corpus.frame
    if corpus.role in IMAGE_ROLES:
        names, grid = frame["id"].to_numpy(), np.arange(len(frame))[:, None]
    else:
        unit, words = pd.factorize(frame["word"], sort=True)
        names, (copy, _) = words.to_numpy(), pd.factorize(frame["template"], sort=True)
        grid = np.empty((len(names), copy.max() + 1), dtype=np.int64)
        grid[unit, copy] = np.arange(len(frame))
    units = frame.iloc[grid[:, 0]].reset_index(drop=True)
    ways = clusters.assign_clusters(corpus).iloc[grid[:, 0]].reset_index(drop=True)
    groups = units["group"].to_numpy(dtype=str) if "group" in units else None
    numbers = np.arange(len(names))
    if set(clusters.LEMMAS) <= {*ways}:
        label_words = clusters.split_labels(units)
        levels = np.stack([pd.factorize(label_words[name], sort=True)[0] for name in label_words], axis=1)
        distinct = [pd.Series(np.sort(label_words[name].unique())) for name in label_words]
        lemmas = [names_of_levels.map(clusters.map_lemmas(names_of_levels)) for names_of_levels in distinct]
    else:
        levels, lemmas = numbers[:, None], [clusters.merge_linked(ways)]
    factors = [_factor(of_level, levels, number, groups) for number, of_level in enumerate(lemmas)]
    return Exchange(grid, levels, tuple(factors), names, (seed, int(corpus.hash[:16], 16)))


def _factor(cluster_names: pd.Series, levels: np.ndarray, number: int, groups: np.ndarray | None) -> Factor:
    """Build a factor from the cluster of each level, the levels of units, and their groups."""
    cluster, _ = pd.factorize(cluster_names, sort=True)
    signatures: list[tuple[str, ...]] = [()] * (cluster.max() + 1)
    if groups is not None:
        others = np.delete(levels, number, axis=1)
        order = np.lexsort([*others.T, levels[:, number]])
        # Groups that each level names, in order of the other factor's levels.
        named = pd.Series(groups[order]).groupby(levels[order, number]).agg(tuple)
        for index, of_levels in named.groupby(cluster[named.index.to_numpy()]):
            is_mixed = of_levels.nunique() > 1
            signatures[index] = () if is_mixed else of_levels.iloc[0]
    return Factor(cluster, tuple(signatures), blocks_of(cluster, np.ones(len(cluster), dtype=int)))


def blocks_of(cluster: np.ndarray, parts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the levels of the clusters of each part and size, by ascending size.

    Args:
        cluster: [levels] number of each level's cluster.
        parts: [levels] number of each level's part; levels of part 0 are in no block.

    Returns:
        Arrays [clusters, size] of levels, in order of clusters and levels.
    """
    blocks: list[np.ndarray] = []
    for number in np.unique(parts[parts > 0]):
        levels = np.flatnonzero(parts == number)
        levels = levels[np.argsort(cluster[levels], kind="stable")]
        _, starts, sizes = np.unique(cluster[levels], return_index=True, return_counts=True)
        blocks += [levels[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)]
    return tuple(blocks)
