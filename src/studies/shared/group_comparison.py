"""Compare two groups of faces: observed, under random partitions and resampled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.resampling import generator, weights

# observed, null (per random partition) or bootstrap (per sample) -> statistic -> value or draws.
Comparison = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Group:
    """Faces of a group."""

    name: str
    ids: np.ndarray  # [n], ids of the faces
    cosines: np.ndarray  # [n, words], cosines with each prompt
    weights: np.ndarray  # [draws, n], weight of each face in each bootstrap sample


def group_of(
    name: str, faces: pd.DataFrame, vectors: Tensor, prompts: Tensor, protocol: ProtocolConfig, seed: int
) -> Group:
    """Build a group from its faces, their vectors [n, D] or [n, Q, D], and prompt vectors [words, D]."""
    counts = weights(faces.assign(name=faces["id"]), protocol.bootstrap, seed)
    return Group(name, faces["id"].to_numpy(dtype=str), metrics.similarity(vectors, prompts).numpy(), counts)


def partitions(names: Sequence[str], size: int, draws: int, seed: int) -> Bool[np.ndarray, "draws n"]:
    """Draw random partitions of two groups' faces into two parts; True marks the `size` faces of the first.

    The draw depends only on names and seed, so that models, debias methods and sets of words share it.
    """
    rng = generator(np.array(names), seed)
    return rng.permuted(np.broadcast_to(np.arange(len(names)) < size, (draws, len(names))), axis=1)


def compare_by_set(a: Group, b: Group, columns: list[int], members: np.ndarray, ties: str) -> Comparison:
    """Compute gaps and CLES of two groups for a set of words, given its columns in the groups' cosines.

    `members` [draws, n] are `partitions` of the faces of a followed by those of b; `ties` (half or
    strict) is how CLES counts ties.
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
        "cles": metrics.partition_cles(pooled, members, ties),
        "delta_gap": metrics.partition_gaps(pooled, members),
    }
    bootstrap: dict[str, Any] = {"cles": metrics.resampled_cles(x, y, a.weights, b.weights, ties)}
    for statistics in (observed, null, bootstrap):
        statistics["cles_gap"] = np.abs(statistics["cles"] - 0.5)
    return {"observed": observed, "null": null, "bootstrap": bootstrap}


def compare_by_pairs(a: Group, b: Group, pairs: np.ndarray, members: np.ndarray, iat: str) -> Comparison:
    """Compute the IAT of two groups of equal size.

    `pairs` are [J, 2], columns of the positive and the negative words; `members` as in `compare_by_set`;
    `iat` is the difference of the sums (total) or the sum of the differences (by_pair).
    """
    size = len(a.ids)
    x, y = (metrics.iat_scores(*(group.cosines[:, side] for side in pairs.T)) for group in (a, b))
    pooled = np.concatenate([x, y])
    totals = {
        "observed": (x.sum(axis=0), y.sum(axis=0)),
        "null": (metrics.iat_totals(pooled, members, size), metrics.iat_totals(pooled, ~members, size)),
        "bootstrap": (metrics.iat_totals(x, a.weights, size), metrics.iat_totals(y, b.weights, size)),
    }
    statistics: Comparison = {
        kind: {"iat": metrics.iat(of_a, of_b, iat), "iat_signed": (of_a - of_b).sum(axis=-1)}
        for kind, (of_a, of_b) in totals.items()
    }
    statistics["observed"]["iat_rate"] = statistics["observed"]["iat"] / (2 * size * len(pairs))
    return statistics


def mean_comparison(comparisons: Sequence[Comparison]) -> Comparison:
    """Average each statistic over sets of words by draw, as they share partitions and samples."""
    return {
        kind: {name: np.mean([row[kind][name] for row in comparisons], axis=0) for name in statistics}
        for kind, statistics in comparisons[0].items()
    }
