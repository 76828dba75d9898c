"""Similarity of images and texts."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# Far above float64's rounding, far below any difference between float32 vectors.
DECIMALS = 12


def similarity(
    targets: Float[Tensor, "n *qx width"], corpus: Float[Tensor, "m *qy width"]
) -> Float[Tensor, "n m"]:
    """Cosine of each target with each item of a corpus, in float64.

    Where an image has several vectors (BLIP-2), the largest of its cosines counts: a choice of
    this project, Ghate et al. 2025 are silent.

    Args:
        targets: [N, D], or [N, Q, D] for images of Q vectors; any length but zero.
        corpus: [M, D], or [M, Q, D].

    Returns:
        Similarities [N, M], rounded to 12 decimals.

    Raises:
        ValueError: both sides have several vectors, or the widths differ.

    >>> similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0], [-2.0, 0.0]]))
    tensor([[ 0.6000, -1.0000]], dtype=torch.float64)
    """
    if targets.ndim == 3 and corpus.ndim == 3:
        raise ValueError("one side must be texts: both have several vectors per item")
    if targets.shape[-1] != corpus.shape[-1]:
        raise ValueError(f"vectors of width {targets.shape[-1]} meet vectors of {corpus.shape[-1]}")
    x, y = _unit(targets), _unit(corpus)
    products = x.reshape(-1, x.shape[-1]) @ y.reshape(-1, y.shape[-1]).T
    # A matrix product rounds equal columns differently; equal vectors must be equally similar, or
    # ties would be broken by chance and a deviation of nothing be taken for one.
    cosines = products.round_(decimals=DECIMALS).reshape(*x.shape[:-1], *y.shape[:-1])
    if targets.ndim == 3:
        return cosines.amax(dim=1)
    return cosines.amax(dim=2) if corpus.ndim == 3 else cosines


def _unit(vectors: Tensor) -> Tensor:
    # Stored vectors are of unit length to float32 only.
    return torch.nn.functional.normalize(vectors.double(), dim=-1)
