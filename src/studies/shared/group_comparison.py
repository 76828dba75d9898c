"""Compare two groups of faces: observed, under random partitions and resampled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int
from torch import Tensor

from src import metrics
from src.stimuli import Table, clusters
from src.studies.shared.exchange_units import build_exchange, find_people
from src.studies.shared.resampling import create_generator, draw_weights

# Kind -> name of a statistic -> its value (kind "observed"), or its values in random partitions ("null") or
# bootstrap samples ("bootstrap").
Comparison = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Group:
    """Faces of a group."""

    name: str
    ids: np.ndarray  # [n], ids of the faces
    cosines: np.ndarray  # [n, words], cosines with each prompt
    bootstrap_weights: np.ndarray  # [draws, n], weight of each face in each sample


def sample_rows(
    table: Table, groups: Sequence[str], size: int | None, seed: int
) -> dict[str, Int[np.ndarray, " n"]]:
    """Sample at most `size` faces of each group (None: all); return their ascending rows.

    The order in which a group's faces are drawn depends on the seed and on the group's position among all
    groups of the table. All groups draw the faces of the same sets of matched pictures, if there are any.
    """
    frame, all_groups = table.frame, table.groups
    labels, ids = frame["group"].to_numpy(), frame["id"].to_numpy()
    ranks = _rank_sets(frame["set"].fillna(frame["id"]), seed) if "set" in frame else None
    sampled: dict[str, np.ndarray] = {}
    for group in groups:
        rows = np.flatnonzero(labels == group)
        if ranks is not None:
            order = np.lexsort([ids[rows], ranks[rows]])
        else:
            permuted = np.random.default_rng([seed, all_groups.index(group)]).permutation(len(rows))
            order = np.argsort(ids[rows], kind="stable")[permuted]
        sampled[group] = np.sort(rows[order[:size]])
    return sampled


def _rank_sets(sets: pd.Series, seed: int) -> np.ndarray:
    """Return the random rank of each row's set, [N]."""
    codes, names = pd.factorize(sets, sort=True)
    return np.asarray(np.random.default_rng(seed).permutation(len(names))[codes])


def draw_group_weights(
    table: Table, rows_by_group: Mapping[str, np.ndarray], draws: int, seed: int
) -> dict[str, np.ndarray]:
    """Draw the bootstrap weights of each group's faces, [draws, n].

    People are drawn with all their faces, sets of matched pictures with all their people, and morphs by their
    parents. Groups are drawn independently of each other unless they share people, sets or parents.
    """
    rows = np.concatenate([*rows_by_group.values()])
    ends = np.cumsum([len(group_rows) for group_rows in rows_by_group.values()])[:-1]
    unit_clusters = clusters.assign_clusters(table).iloc[rows].reset_index(drop=True)
    units = table.frame.iloc[rows].assign(name=table.frame["id"]).reset_index(drop=True)
    if clusters.CLUSTER in unit_clusters and unit_clusters[clusters.CLUSTER].duplicated().any():
        units["name"] = unit_clusters[clusters.CLUSTER]
    positions = np.split(np.arange(len(rows)), ends)
    names = [{*unit_clusters.iloc[group].to_numpy(dtype=str).ravel()} for group in positions]
    if len(set.union(*names)) < sum(map(len, names)):
        weights = np.split(draw_weights(units, draws, seed), ends, axis=1)
    else:
        weights = [draw_weights(units.iloc[group], draws, seed) for group in positions]
    return dict(zip(rows_by_group, weights, strict=True))


def draw_pair_partitions(
    table: Table, rows_a: np.ndarray, rows_b: np.ndarray, draws: int, seed: int
) -> tuple[Bool[np.ndarray, "draws n"], str]:
    """Draw random partitions of two groups' faces, see `draw_partitions`.

    If several faces are of a person, a set or linked morphs, these change places instead of faces; people
    change places within their sets, if there are any (docs/methods.md, section 6.1).

    Returns:
        Masks of the faces of `rows_a` followed by those of `rows_b`; and the reason if they are missing.
    """
    rows = np.concatenate([rows_a, rows_b])
    ascending = np.sort(rows)
    frame = table.frame.iloc[ascending].reset_index(drop=True)
    frame["group"] = np.where(np.isin(ascending, rows_a), "a", "b")
    pair = replace(table, frame=frame)
    linked = clusters.merge_linked(clusters.assign_clusters(pair))
    if not draws or not (find_people(pair) or linked.duplicated().any()):
        ids = [str(name) for name in table.frame["id"].iloc[rows]]
        return draw_partitions(ids, len(rows_a), draws, seed), ""
    exchange = build_exchange(pair, seed)
    if reason := exchange.explain_refusal("a"):
        return np.empty((0, len(rows)), dtype=bool), reason
    is_a = frame["group"].eq("a").to_numpy()
    return is_a[exchange.draw_permutations(draws)][:, np.searchsorted(ascending, rows)], ""


def describe_missing(pairs_by_reason: Mapping[str, Sequence[str]]) -> list[str]:
    """Describe which pairs of groups have no p, by reason, for the notes of a job."""
    return [f"no p of {', '.join(pairs)}, since {reason}" for reason, pairs in pairs_by_reason.items()]


def build_group(
    name: str,
    faces: pd.DataFrame,
    face_vectors: Tensor,
    prompt_vectors: Tensor,
    bootstrap_weights: np.ndarray,
) -> Group:
    """Build a group from its faces, their vectors [n, D] or [n, Q, D], and prompt vectors [words, D]."""
    cosines = metrics.similarity(face_vectors, prompt_vectors).numpy()
    return Group(name, faces["id"].to_numpy(dtype=str), cosines, bootstrap_weights)


def draw_partitions(ids: Sequence[str], size: int, draws: int, seed: int) -> Bool[np.ndarray, "draws n"]:
    """Draw random partitions of two groups' faces; True marks the `size` faces of the first part.

    The draws depend only on ids and seed, so that models, debiasing methods and sets of words share them.
    """
    rng = create_generator(np.array(ids), seed)
    return rng.permuted(np.broadcast_to(np.arange(len(ids)) < size, (draws, len(ids))), axis=1)


def compare_by_set(
    a: Group, b: Group, columns: list[int], partition_masks: np.ndarray, ties: str
) -> Comparison:
    """Compute gaps and CLES of two groups for a set of words.

    Args:
        a: first group.
        b: second group.
        columns: columns of the set's words in the groups' cosines.
        partition_masks: `draw_partitions` of the faces of a followed by those of b, [draws, n].
        ties: how CLES counts ties, half or strict.
    """
    x, y = a.cosines[:, columns], b.cosines[:, columns]
    pooled, z = np.concatenate([x, y]), metrics.z_score(x, y)
    observed: dict[str, Any] = {
        "delta_gap": metrics.delta_gap(x, y),
        "delta_signed": metrics.delta_gap(x, y, signed=True),
        "cohens_d": metrics.cohens_d(x, y),
        "z": z,
        "upper_tail": metrics.upper_tail(z),
        "cles_mcgraw_wong": metrics.cles_mcgraw_wong(x, y),
        "cles": metrics.cles(x, y, ties),
    }
    null: dict[str, Any] = {
        "cles": metrics.partition_cles(pooled, partition_masks, ties),
        "delta_gap": metrics.partition_gaps(pooled, partition_masks),
    }
    bootstrap: dict[str, Any] = {
        "cles": metrics.resampled_cles(x, y, a.bootstrap_weights, b.bootstrap_weights, ties)
    }
    for statistics in (observed, null, bootstrap):
        statistics["cles_gap"] = np.abs(statistics["cles"] - 0.5)
    return {"observed": observed, "null": null, "bootstrap": bootstrap}


def compare_by_pairs(
    a: Group, b: Group, pairs: np.ndarray, partition_masks: np.ndarray, iat: str
) -> Comparison:
    """Compute the IAT of two groups of equal size.

    Args:
        a: first group.
        b: second group.
        pairs: columns of each pair's positive and negative word in the groups' cosines, [pairs, 2].
        partition_masks: as in `compare_by_set`.
        iat: difference of the sums over pairs (total), or sum of the differences (by_pair).
    """
    size = len(a.ids)
    x, y = (metrics.iat_scores(*(group.cosines[:, side] for side in pairs.T)) for group in (a, b))
    pooled = np.concatenate([x, y])
    totals = {
        "observed": (x.sum(axis=0), y.sum(axis=0)),
        "null": tuple(metrics.iat_totals(pooled, mask, size) for mask in (partition_masks, ~partition_masks)),
        "bootstrap": (
            metrics.iat_totals(x, a.bootstrap_weights, size),
            metrics.iat_totals(y, b.bootstrap_weights, size),
        ),
    }
    statistics: Comparison = {
        kind: {"iat": metrics.iat(of_a, of_b, iat), "iat_signed": (of_a - of_b).sum(axis=-1)}
        for kind, (of_a, of_b) in totals.items()
    }
    statistics["observed"]["iat_rate"] = statistics["observed"]["iat"] / (2 * size * len(pairs))
    return statistics


def average_comparisons(comparisons: Sequence[Comparison]) -> Comparison:
    """Average each statistic over sets of words, draw by draw: sets share partitions and samples."""
    return {
        kind: {
            name: np.mean([comparison[kind][name] for comparison in comparisons], axis=0)
            for name in statistics
        }
        for kind, statistics in comparisons[0].items()
    }
