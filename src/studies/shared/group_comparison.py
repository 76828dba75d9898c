"""Two groups of faces compared: as observed, under random partitions, and resampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.resampling import PARENTS, generator, weights

# observed, null (of each random partition), bootstrap (of each sample) -> statistic -> its value or draws.
Reading = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Group:
    """Faces of a group.

    Attributes:
        name: of the group.
        ids: [n], of the faces.
        cosines: [n, words], with each prompt.
        weights: [draws, n], how often each face stands in each bootstrap sample.
    """

    name: str
    ids: np.ndarray
    cosines: np.ndarray
    weights: np.ndarray


def group_of(
    name: str, frame: pd.DataFrame, vectors: Tensor, texts: Tensor, protocol: ProtocolConfig, seed: int
) -> Group:
    """Faces of a group, as they are compared with all others.

    Args:
        name: of the group.
        frame: its rows of the table of faces.
        vectors: of these faces, [n, D] or [n, Q, D].
        texts: of the prompts, [words, D].
        protocol: how many bootstrap samples.
        seed: of these.
    """
    parents = [column for column in PARENTS if column in frame.columns]
    drawn = weights(frame[["id", *parents]].rename(columns={"id": "name"}), protocol.bootstrap, seed)
    return Group(name, frame["id"].to_numpy(dtype=str), metrics.similarity(vectors, texts).numpy(), drawn)


def partitions(names: Sequence[str], size: int, draws: int, seed: int) -> Bool[np.ndarray, "draws n"]:
    """Random partitions of faces: true where one is in the first set.

    Args:
        names: of the faces of both groups; the draw hangs on them and the seed alone, so that models,
            debias and sets of words share it.
        size: of the first set.
        draws: how many.
        seed: of the draw.
    """
    rng = generator(np.array(names), seed)
    return rng.permuted(np.broadcast_to(np.arange(len(names)) < size, (draws, len(names))), axis=1)


def by_set(a: Group, b: Group, columns: list[int], members: np.ndarray, ties: str) -> Reading:
    """Gaps and CLES of two groups on a set of words.

    Args:
        a, b: the groups.
        columns: of the words in the groups' cosines.
        members: see `partitions`, of the faces of a and then of b.
        ties: of the protocol.
    """
    x, y = a.cosines[:, columns], b.cosines[:, columns]
    both, z = np.concatenate([x, y]), metrics.z_score(x, y)
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
        "cles": metrics.partition_cles(both, members, ties),
        "delta_gap": metrics.partition_gaps(both, members),
    }
    bootstrap: dict[str, Any] = {"cles": metrics.resampled_cles(x, y, a.weights, b.weights, ties)}
    for statistics in (observed, null, bootstrap):
        statistics["cles_gap"] = np.abs(statistics["cles"] - 0.5)
    return {"observed": observed, "null": null, "bootstrap": bootstrap}


def by_pairs(a: Group, b: Group, pairs: np.ndarray, members: np.ndarray, reading: str) -> Reading:
    """The IAT of two groups.

    Args:
        a, b: the groups, of one size.
        pairs: [J, 2], columns of the positive and the negative words in the groups' cosines.
        members: see `partitions`, of the faces of a and then of b.
        reading: of the protocol.
    """
    size = len(a.ids)
    x, y = (metrics.iat_scores(*(group.cosines[:, side] for side in pairs.T)) for group in (a, b))
    both = np.concatenate([x, y])
    totals = {
        "observed": (x.sum(axis=0), y.sum(axis=0)),
        "null": (metrics.iat_totals(both, members, size), metrics.iat_totals(both, ~members, size)),
        "bootstrap": (metrics.iat_totals(x, a.weights, size), metrics.iat_totals(y, b.weights, size)),
    }
    found: Reading = {
        kind: {"iat": metrics.iat(of_a, of_b, reading), "iat_signed": (of_a - of_b).sum(axis=-1)}
        for kind, (of_a, of_b) in totals.items()
    }
    found["observed"]["iat_rate"] = found["observed"]["iat"] / (2 * size * len(pairs))
    return found


def mean(readings: Sequence[Reading]) -> Reading:
    """Each statistic's mean over sets of words, draw by draw: they share partitions and samples."""
    return {
        kind: {name: np.mean([one[kind][name] for one in readings], axis=0) for name in statistics}
        for kind, statistics in readings[0].items()
    }
