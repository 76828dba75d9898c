"""Split the clusters of a corpus into halves (docs/methods.md, sections 6.1, 6.5 and 6.14)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.stimuli import Table, clusters
from src.studies.shared.exchange_units import Exchange

# Half of a cluster or of a row of the corpus.
FIRST, SECOND, NEITHER = 1, 2, 0


def split_units(
    corpus: Table, exchange: Exchange, seed: int, split: int = 0, among: np.ndarray | None = None
) -> tuple[list[np.ndarray], np.ndarray]:
    """Split the clusters of each group, or all clusters of a corpus with valence, into halves.

    A phrase that shares its race word with one half and its gender word with the other is in neither. In a
    group whose parents are all linked by morphs, the parents are split instead: a morph of parents of both
    halves is in neither.

    Args:
        corpus: table of the corpus.
        exchange: its exchange units.
        seed: seed of the draw.
        split: number of the split; 0 is that of held-out attributes.
        among: mask of the rows that are split; the others are in neither half. None: all.

    Returns:
        Half of each level of each factor, and half of each row of the corpus.
    """
    rows = np.flatnonzero(np.full(len(corpus.frame), True) if among is None else among)
    halves_by_factor = []
    for number, factor in enumerate(exchange.factors):
        levels = exchange.levels[exchange.unit_of_row[rows], number]
        is_used = np.zeros(len(factor.signatures), dtype=bool)
        is_used[factor.clusters[levels]] = True
        signatures = [name if used else None for name, used in zip(factor.signatures, is_used, strict=True)]
        halves_by_factor.append(halve(signatures, seed, split, number)[factor.clusters])
    if {*clusters.PARENTS} <= {*corpus.frame}:  # morphs
        parents, groups = clusters.assign_clusters(corpus).iloc[rows], corpus.frame["group"].to_numpy()[rows]
        _split_linked(halves_by_factor[0], rows, parents, groups, exchange, seed, split)
    halves = np.stack([of_level[exchange.levels[:, n]] for n, of_level in enumerate(halves_by_factor)])
    unit_halves = np.where((halves == halves[0]).all(axis=0), halves[0], NEITHER)
    row_halves = unit_halves[exchange.unit_of_row]
    return halves_by_factor, row_halves if among is None else np.where(among, row_halves, NEITHER)


def split_templates(corpus: Table, seed: int, split: int) -> np.ndarray:
    """Split the templates of a text corpus into halves; return a mask of bits for each row.

    Rows of a single template are in both halves, `FIRST | SECOND`.
    """
    template, names = pd.factorize(corpus.frame["template"], sort=True)
    if len(names) < 2:
        return np.full(len(template), FIRST | SECOND)
    return _deal(len(names), np.random.default_rng([seed, 0, split, 4]))[template]


def halve(signatures: Sequence[tuple[object, ...] | None], seed: int, split: int, number: int) -> np.ndarray:
    """Deal clusters into halves, those of each signature separately; the larger half is the second.

    Args:
        signatures: signature of each cluster, such as its groups; a cluster with None is in neither half.
        seed: seed of the draw.
        split: number of the split.
        number: number of the factor to which the clusters belong.
    """
    halves = np.full(len(signatures), NEITHER)
    by_signature: dict[tuple[object, ...], list[int]] = {}
    for cluster, signature in enumerate(signatures):
        if signature is not None:
            by_signature.setdefault(signature, []).append(cluster)
    for index, signature in enumerate(sorted(by_signature)):
        rng = np.random.default_rng([seed, index, split, 1 + number])
        halves[by_signature[signature]] = _deal(len(by_signature[signature]), rng)
    return halves


def _split_linked(
    halves: np.ndarray,
    faces: np.ndarray,
    parents: pd.DataFrame,
    groups: np.ndarray,
    exchange: Exchange,
    seed: int,
    split: int,
) -> None:
    """Split the parents of each group that is a single cluster; overwrite the `halves` of its faces.

    A face gets the half to which both its parents belong, or `NEITHER`. `faces` are rows of the corpus, with
    their `parents` and `groups`.
    """
    cluster = exchange.factors[0].clusters
    for index, group in enumerate(np.unique(groups)):
        members = groups == group
        if len(np.unique(cluster[faces[members]])) > 1:
            continue
        names, numbers = np.unique(parents[members].to_numpy(dtype=str), return_inverse=True)
        half_of_parent = _deal(len(names), np.random.default_rng([seed, index, split, 3]))
        first, second = half_of_parent[numbers.reshape(-1, 2)].T
        halves[faces[members]] = np.where(first == second, first, NEITHER)


def _deal(count: int, rng: np.random.Generator) -> np.ndarray:
    halves = np.full(count, SECOND)
    halves[rng.permutation(count)[: count // 2]] = FIRST
    return halves
