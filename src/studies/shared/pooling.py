"""One vector of an image that has several."""

from __future__ import annotations

import torch
from torch import Tensor


def pooled(vectors: Tensor) -> Tensor:
    """The mean of an image's several vectors, as one unit vector; others as they are."""
    if vectors.ndim == 2:
        return vectors
    return torch.nn.functional.normalize(vectors.double().mean(dim=1), dim=-1)
