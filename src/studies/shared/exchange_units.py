"""Exchange the property (valence or group) of a corpus among its clusters.

A *placement* is a distinct assignment of the property to the clusters; permutations among equal clusters do
not change it. See docs/methods.md, section 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from src.stimuli import IMAGE_ROLES, Table, clusters

# A corpus with fewer placements, or with a smaller share of units that can change place, is not permuted.
MIN_PLACEMENTS = 1000
MIN_MOVABLE = 0.5
CROSSED = "the words of the axes are not fully crossed"


@dataclass(frozen=True)
class People:
    """People in sets of matched pictures, who change places with the other people of their sets.

    Attributes:
        person: index of each picture's person, [pictures].
        set: index of each picture's set, [pictures]; a picture without a set is one by itself.
        signatures: for each person, the group of the pictures; empty if they have several.
    """

    person: np.ndarray
    set: np.ndarray
    signatures: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Factor:
    """Factor of a corpus; clusters of its levels are exchanged.

    The levels are faces, scenes, words, race words or gender words.

    Attributes:
        clusters: index of each level's cluster, [levels].
        signatures: for each cluster, the groups of the units that contain a level of the cluster, ordered by
            the other factors (a single group if there is no other factor); empty if the cluster's levels have
            different groups, or for valence.
        parts: number of each level's part of the corpus, [levels]; levels of part 0 take no part.
        people: people in sets of matched pictures, who change places instead of the clusters; else None.
    """

    clusters: np.ndarray
    signatures: tuple[tuple[str, ...], ...]
    parts: np.ndarray
    people: People | None = None

    @cached_property
    def blocks(self) -> tuple[np.ndarray, ...]:
        """Return the blocks of levels that change places, see `build_blocks` and `build_set_blocks`."""
        if self.people is None:
            return build_blocks(self.clusters, self.parts)
        return build_set_blocks(self.people, self.parts)

    def draw_permutation(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a permutation that maps each level to the level it replaces."""
        return permute_blocks(self.blocks, len(self.clusters), rng)

    def count_placements(self, group: str | None) -> tuple[float, np.ndarray]:
        """Count the placements of a group (None: of valence), and mark the levels that can change place.

        Returns:
            log10 of the number of placements, and a mask [levels].
        """
        log10_placements, is_movable = 0.0, np.zeros(len(self.clusters), dtype=bool)
        exchanged, signatures = self.clusters, self.signatures
        if self.people is not None:
            exchanged, signatures = self.people.person, self.people.signatures
        for block in split_blocks(self.blocks):
            total, n_with_group = len(block), len(block)
            if group is not None:
                n_with_group = sum(group in signatures[exchanged[row[0]]] for row in block)
                # Natural logarithm of the number of permutations that do not change the placement.
                ln_permutations = math.lgamma(n_with_group + 1)
                ln_permutations += math.lgamma(total - n_with_group + 1)
                log10_placements -= ln_permutations / math.log(10)
            log10_placements += math.lgamma(total + 1) / math.log(10)
            is_movable[block] = total > 1 if group is None else 0 < n_with_group < total
        return log10_placements, is_movable


@dataclass(frozen=True)
class Exchange:
    """Exchange units of a corpus and their permutations.

    Attributes:
        grid: rows of the corpus's table, [units, copies]; a word has a row in each template.
        levels: level of each unit in each factor, [units, factors]: a phrase's race word and gender word, or
            the unit itself.
        factors: one factor, or one per axis of phrases.
        names: names of the units, [units].
        seed: random seed and hash of the corpus, so that all models, strata and experiments share the
            permutations.
    """

    grid: np.ndarray
    levels: np.ndarray
    factors: tuple[Factor, ...]
    names: np.ndarray
    seed: tuple[int, ...]

    @cached_property
    def unit_of_row(self) -> np.ndarray:
        """Return the unit of each row, [rows]."""
        return np.asarray(np.argsort(self.grid, axis=None) // self.grid.shape[1])

    @cached_property
    def copy_of_row(self) -> np.ndarray:
        """Return the index of each row among the copies of its unit, [rows]."""
        return np.asarray(np.argsort(self.grid, axis=None) % self.grid.shape[1])

    @cached_property
    def _unit_of_levels(self) -> np.ndarray:
        # -1 where no unit has this combination of levels.
        units = np.full([len(factor.clusters) for factor in self.factors], -1)
        units[tuple(self.levels.T)] = np.arange(len(self.levels))
        return units

    @property
    def n_clusters(self) -> int:
        """Count the clusters of all factors."""
        return sum(len(factor.signatures) for factor in self.factors)

    def draw_permutations(self, count: int) -> np.ndarray:
        """Draw permutations π_1 to π_R that map each unit to the unit it replaces, [count, units].

        π_r depends on seed, corpus and r only; π_0 is the identity.
        """
        permutations = np.empty((count, len(self.grid)), dtype=np.int32)
        for r in range(1, count + 1):
            rng = np.random.default_rng([*self.seed, r])
            permuted_levels = [factor.draw_permutation(rng) for factor in self.factors]
            levels = [permuted[self.levels[:, column]] for column, permuted in enumerate(permuted_levels)]
            permutations[r - 1] = self._unit_of_levels[tuple(levels)]
        return permutations

    def permute_rows(self, rows: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        """Return the rows that `rows` [n] replace under permutations [R, units]: [R, n].

        A sentence replaces a sentence of the same template.
        """
        return np.asarray(self.grid[permutations[:, self.unit_of_row[rows]], self.copy_of_row[rows]])

    def count_placements(self, group: str | None) -> tuple[float, float]:
        """Count the placements of a group (None: of valence), and measure how many units can change place.

        Returns:
            log10 of the number of placements; and the share of the units taking part that can change place.
        """
        counts = [factor.count_placements(group) for factor in self.factors]
        is_exchanged = np.all(
            [factor.parts[levels] > 0 for factor, levels in zip(self.factors, self.levels.T, strict=True)],
            axis=0,
        )
        is_movable = np.any(
            [movable[levels] for (_, movable), levels in zip(counts, self.levels.T, strict=True)], axis=0
        )
        share = float(is_movable[is_exchanged].mean()) if is_exchanged.any() else 0.0
        return sum(log10_placements for log10_placements, _ in counts), share

    def explain_refusal(self, group: str | None) -> str:
        """Explain why the property is not permuted and has no placebo; empty if it is permuted."""
        if (self._unit_of_levels < 0).any():
            return "race words and gender words are not fully crossed" if len(self.factors) == 2 else CROSSED
        log10_placements, movable_share = self.count_placements(group)
        if self.factors[0].people is not None and movable_share < MIN_MOVABLE:
            return "less than half of the faces are in a set with people of other groups"
        if log10_placements < math.log10(MIN_PLACEMENTS):
            return f"fewer than {MIN_PLACEMENTS:,} placements"
        return "less than half of the items can change place" if movable_share < MIN_MOVABLE else ""

    def restrict(self, parts_by_factor: Sequence[np.ndarray]) -> Exchange:
        """Build a copy in which clusters are exchanged only within the same part of the corpus.

        Args:
            parts_by_factor: for each factor, the part of each level, [levels]; levels of part 0 stay in
                place.
        """
        restricted = [
            replace(factor, parts=parts_of_levels)
            for factor, parts_of_levels in zip(self.factors, parts_by_factor, strict=True)
        ]
        return replace(self, factors=tuple(restricted))


def build_exchange(corpus: Table, seed: int) -> Exchange:
    """Build the exchange units of a corpus, to be permuted with random seed `seed`.

    A unit is a scene, a face, or a word or phrase with all its sentences. Phrases that combine words of
    several axes, such as a race word and a gender word, have a factor per axis, whose clusters are the lemmas
    of these words; all other units have one factor, whose clusters are those of the table.
    """
    frame = corpus.frame
    if corpus.role in IMAGE_ROLES:
        names, grid = frame["id"].to_numpy(), np.arange(len(frame))[:, None]
    else:
        unit_of_row, words = pd.factorize(frame["word"], sort=True)
        copy_of_row, _ = pd.factorize(frame["template"], sort=True)
        names, grid = words.to_numpy(), np.empty((len(words), copy_of_row.max() + 1), dtype=np.int64)
        grid[unit_of_row, copy_of_row] = np.arange(len(frame))
    units = frame.iloc[grid[:, 0]].reset_index(drop=True)
    unit_clusters = clusters.assign_clusters(corpus).iloc[grid[:, 0]].reset_index(drop=True)
    groups = units["group"].to_numpy(dtype=str) if "group" in units else None
    if all(str(name).endswith(clusters.LEMMA) for name in unit_clusters):
        label_words = clusters.split_labels(units)
        levels = np.stack([pd.factorize(label_words[name], sort=True)[0] for name in label_words], axis=1)
        distinct_words = [pd.Series(np.sort(label_words[name].unique())) for name in label_words]
        cluster_names = [
            words.map(clusters.find_lemmas(units, str(name), words))
            for name, words in zip(label_words, distinct_words, strict=True)
        ]
    else:
        levels, cluster_names = np.arange(len(names))[:, None], [clusters.merge_linked(unit_clusters)]
    factors = [
        _build_factor(factor_clusters, levels, column, groups)
        for column, factor_clusters in enumerate(cluster_names)
    ]
    if people := find_people(corpus):
        factors = [replace(factors[0], people=people)]
    return Exchange(grid, levels, tuple(factors), names, (seed, int(corpus.hash[:16], 16)))


def find_people(faces: Table) -> People | None:
    """Return the people of faces in sets; None if the table has no sets."""
    frame = faces.frame
    if faces.role != "faces" or "set" not in frame or frame["set"].isna().all():
        return None
    person, _ = pd.factorize(clusters.assign_people(frame), sort=True)
    # The first character tells the ids of pictures without a set from names of sets.
    sets = ("0" + frame["set"].astype("string")).fillna("1" + frame["id"])
    groups = frame["group"].groupby(person).unique()
    signatures = tuple(tuple(values) if len(values) == 1 else () for values in groups)
    return People(person, pd.factorize(sets, sort=True)[0], signatures)


def _build_factor(
    cluster_names: pd.Series, levels: np.ndarray, column: int, groups: np.ndarray | None
) -> Factor:
    """Build the factor of a column of `levels`, from the cluster of each level and the group of each unit."""
    cluster_of_level, _ = pd.factorize(cluster_names, sort=True)
    signatures: list[tuple[str, ...]] = [()] * (cluster_of_level.max() + 1)
    if groups is not None:
        other_levels = np.delete(levels, column, axis=1)
        order = np.lexsort([*other_levels.T, levels[:, column]])
        # Groups of the units that contain each level, in order of the other factor's levels.
        level_groups = pd.Series(groups[order]).groupby(levels[order, column]).agg(tuple)
        for cluster, cluster_groups in level_groups.groupby(cluster_of_level[level_groups.index.to_numpy()]):
            is_mixed = cluster_groups.nunique() > 1
            signatures[cluster] = () if is_mixed else cluster_groups.iloc[0]
    return Factor(cluster_of_level, tuple(signatures), np.ones(len(cluster_of_level), dtype=int))


def build_blocks(cluster_of_level: np.ndarray, parts_of_levels: np.ndarray) -> tuple[np.ndarray, ...]:
    """Build blocks of exchangeable clusters: of the same part of the corpus, with equally many levels.

    Args:
        cluster_of_level: index of each level's cluster, [levels].
        parts_of_levels: number of each level's part, [levels]; levels of part 0 are in no block.

    Returns:
        Arrays [clusters, size] of levels, by part and ascending size; rows in order of clusters.
    """
    blocks: list[np.ndarray] = []
    for number in np.unique(parts_of_levels[parts_of_levels > 0]):
        levels = np.flatnonzero(parts_of_levels == number)
        levels = levels[np.argsort(cluster_of_level[levels], kind="stable")]
        _, starts, sizes = np.unique(cluster_of_level[levels], return_index=True, return_counts=True)
        blocks += [levels[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)]
    return tuple(blocks)


def build_set_blocks(people: People, parts_of_levels: np.ndarray) -> tuple[np.ndarray, ...]:
    """Build blocks of people who change places: of the same part of the corpus, and in the same sets.

    The scene stays: a person's picture in a set takes the place of the other's picture in the same set.

    Args:
        people: people and sets of the pictures.
        parts_of_levels: number of each picture's part, [pictures]; pictures of part 0 are in no block.

    Returns:
        Arrays [blocks, people, size] of pictures: blocks of equally many people with equally many pictures.
        People who share their sets with nobody are in none.
    """
    levels = np.flatnonzero(parts_of_levels > 0)
    order = np.lexsort([people.set[levels], people.person[levels], parts_of_levels[levels]])
    levels = levels[order]
    rows: dict[tuple[int, ...], list[np.ndarray]] = {}
    starts = np.flatnonzero(np.diff(parts_of_levels[levels]) | np.diff(people.person[levels])) + 1
    for pictures in np.split(levels, starts) if len(levels) else ():
        rows.setdefault((parts_of_levels[pictures[0]], *people.set[pictures]), []).append(pictures)
    stacks: dict[tuple[int, int], list[np.ndarray]] = {}
    for _, block in sorted(rows.items()):
        if len(block) > 1:
            stacks.setdefault((len(block), len(block[0])), []).append(np.stack(block))
    return tuple(np.stack(stacks[shape]) for shape in sorted(stacks))


def split_blocks(blocks: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield each block [m, s] of levels, whether built by `build_blocks` or `build_set_blocks`."""
    for block in blocks:
        yield from [block] if block.ndim == 2 else block


def permute_blocks(blocks: Sequence[np.ndarray], count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a permutation within blocks that maps each of `count` levels to the level it replaces."""
    levels = np.arange(count)
    for block in blocks:
        if block.ndim == 2:
            levels[block] = block[rng.permutation(len(block))]
        else:
            order = rng.random(block.shape[:2]).argsort(axis=1)
            levels[block] = np.take_along_axis(block, order[:, :, None], axis=1)
    return levels
