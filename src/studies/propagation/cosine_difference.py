"""Define the difference of mean cosines, an intrinsic measure in [-2, 2] that does not saturate."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.studies.propagation.measures import IntrinsicMeasure, Sets, Sums


def score(similarities: Tensor, a: Sets, b: np.ndarray, protocol: ProtocolConfig) -> Tensor:  # noqa: ARG001
    """Return the mean similarity with each set A minus the mean similarity with B, [N, S]."""
    to_a = torch.stack([similarities[:, items].mean(dim=1) for items in a], dim=1)
    return to_a - similarities[:, b].mean(dim=1, keepdim=True)


def by_sums(sums: Sums, protocol: ProtocolConfig) -> Tensor:  # noqa: ARG001
    """Return the scores for R pairs of sets A and B, [R, N]."""
    return sums.to_a / sums.n_a - sums.to_b / sums.n_b


def by_vectors(items: Tensor, a: Sets, b: Sets, protocol: ProtocolConfig) -> Callable[[Tensor], Tensor]:  # noqa: ARG001
    """Return a function: targets [N, D] -> their products with mean of A minus mean of B, [N, S]."""
    differences = [items[in_a].mean(dim=0) - items[in_b].mean(dim=0) for in_a, in_b in zip(a, b, strict=True)]
    return lambda targets: targets @ torch.stack(differences, dim=1)


DIFFERENCE = IntrinsicMeasure("difference of mean cosines", score, by_sums, by_vectors)
