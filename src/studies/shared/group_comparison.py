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


def build_group(
    name: str,
    faces: pd.DataFrame,
    face_vectors: Tensor,
    prompt_vectors: Tensor,
    protocol: ProtocolConfig,
    seed: int,
) -> Group:
    """Build a group from its faces, their vectors [n, D] or [n, Q, D], and prompt vectors [words, D]."""
    bootstrap_weights = draw_weights(faces.assign(name=faces["id"]), protocol.bootstrap, seed)
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
