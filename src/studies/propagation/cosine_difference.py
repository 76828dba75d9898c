"""Difference of mean cosines as intrinsic measure: it has a unit, and does not saturate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.studies.propagation.measures import IntrinsicMeasure, Sums


def score(near: Tensor, a: Sequence[np.ndarray], b: np.ndarray, protocol: ProtocolConfig) -> Tensor:  # noqa: ARG001
    """Return mean similarity with each A less that with B, [N, S]."""
    return torch.stack([near[:, items].mean(dim=1) for items in a], dim=1) - near[:, b].mean(dim=1)[:, None]


def by_sums(sums: Sums, protocol: ProtocolConfig) -> Tensor:  # noqa: ARG001
    """Return the same for many sets at once, [R, N]."""
    return sums.to_a / sums.n_a - sums.to_b / sums.n_b


def by_vectors(
    items: Tensor,
    a: Sequence[np.ndarray],
    b: Sequence[np.ndarray],
    protocol: ProtocolConfig,  # noqa: ARG001
) -> Callable[[Tensor], Tensor]:
    """Return the similarity with the mean of A less that of B."""
    apart = [items[of_a].mean(dim=0) - items[of_b].mean(dim=0) for of_a, of_b in zip(a, b, strict=True)]
    return lambda targets: targets @ torch.stack(apart, dim=1)


DIFFERENCE = IntrinsicMeasure(
    label="difference of mean cosines", score=score, by_sums=by_sums, by_vectors=by_vectors
)
