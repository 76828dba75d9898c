"""Split the clusters of a corpus into halves (docs/methods.md, sections 6.1, 6.5 and 6.14)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.stimuli import Table, clusters
from src.studies.shared.exchange_units import Exchange

# Half to which a cluster, a level of a factor or a row of the corpus belongs.
FIRST, SECOND, NEITHER = 1, 2, 0


def split_units(
    corpus: Table, exchange: Exchange, seed: int, split: int = 0, row_mask: np.ndarray | None = None
) -> tuple[list[np.ndarray], np.ndarray]:
    """Split the clusters of each group, or all clusters of a corpus with valence, into halves.

    A phrase whose race word and gender word are in different halves is in neither half. In a group whose
    parents are all linked by morphs, the parents are split instead: a morph whose parents are in different
    halves is in neither half.

    Args:
        corpus: table of the corpus.
        exchange: its exchange units.
        seed: seed of the draw.
        split: 0 for held-out attributes, 1, 2, ... for further splits.
        row_mask: mask of the rows to split; the others are in neither half. None: all rows.

    Returns:
        For each factor, the half of each level; and the half of each row of the corpus.
    """
    rows = np.arange(len(corpus.frame)) if row_mask is None else np.flatnonzero(row_mask)
    halves_by_factor = []
    for index, factor in enumerate(exchange.factors):
        levels = exchange.levels[exchange.unit_of_row[rows], index]
        is_used = np.zeros(len(factor.signatures), dtype=bool)
        is_used[factor.clusters[levels]] = True
        signatures = [
            signature if used else None for signature, used in zip(factor.signatures, is_used, strict=True)
        ]
        halves_by_factor.append(halve(signatures, seed, split, index)[factor.clusters])
    if {*clusters.PARENTS} <= {*corpus.frame}:  # morphs
        parents, groups = clusters.assign_clusters(corpus).iloc[rows], corpus.frame["group"].to_numpy()[rows]
        _split_parents(halves_by_factor[0], rows, parents, groups, exchange, seed, split)
    unit_factor_halves = np.stack(
        [halves[exchange.levels[:, n]] for n, halves in enumerate(halves_by_factor)]
    )
    unit_halves = np.where(
        (unit_factor_halves == unit_factor_halves[0]).all(axis=0), unit_factor_halves[0], NEITHER
    )
    row_halves = unit_halves[exchange.unit_of_row]
    return halves_by_factor, row_halves if row_mask is None else np.where(row_mask, row_halves, NEITHER)


def split_templates(corpus: Table, seed: int, split: int) -> np.ndarray:
    """Split the templates of a text corpus into halves; return the half of each row.

    If there is only one template, its rows are in both halves: `FIRST | SECOND`.
    """
    template, names = pd.factorize(corpus.frame["template"], sort=True)
    if len(names) < 2:
        return np.full(len(template), FIRST | SECOND)
    return _draw_halves(len(names), np.random.default_rng([seed, 0, split, 4]))[template]


def halve(signatures: Sequence[tuple[object, ...] | None], seed: int, split: int, factor: int) -> np.ndarray:
    """Split clusters into halves, separately for each signature; the second half may have one more.

    Args:
        signatures: signature of each cluster, such as its groups; a cluster with None is in neither half.
        seed: seed of the draw.
        split: split to draw, 0, 1, 2, ...
        factor: index of the factor to which the clusters belong.

    Returns:
        The half of each cluster.
    """
    halves = np.full(len(signatures), NEITHER)
    by_signature: dict[tuple[object, ...], list[int]] = {}
    for cluster, signature in enumerate(signatures):
        if signature is not None:
            by_signature.setdefault(signature, []).append(cluster)
    for index, signature in enumerate(sorted(by_signature)):
        rng = np.random.default_rng([seed, index, split, 1 + factor])
        halves[by_signature[signature]] = _draw_halves(len(by_signature[signature]), rng)
    return halves


def _split_parents(
    halves: np.ndarray,
    faces: np.ndarray,
    parents: pd.DataFrame,
    groups: np.ndarray,
    exchange: Exchange,
    seed: int,
    split: int,
) -> None:
    """Split the parents of each group whose faces form one cluster; update the faces' `halves` in place.

    A face gets the half to which both its parents belong, or `NEITHER`. `faces` are rows of the corpus;
    `parents` and `groups` are those of each face.
    """
    cluster = exchange.factors[0].clusters
    for index, group in enumerate(np.unique(groups)):
        members = groups == group
        if len(np.unique(cluster[faces[members]])) > 1:
            continue
        names, parent_indices = np.unique(parents[members].to_numpy(dtype=str), return_inverse=True)
        half_of_parent = _draw_halves(len(names), np.random.default_rng([seed, index, split, 3]))
        first, second = half_of_parent[parent_indices.reshape(-1, 2)].T
        halves[faces[members]] = np.where(first == second, first, NEITHER)


def _draw_halves(count: int, rng: np.random.Generator) -> np.ndarray:
    halves = np.full(count, SECOND)
    halves[rng.permutation(count)[: count // 2]] = FIRST
    return halves
