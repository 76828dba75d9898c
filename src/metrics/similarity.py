"""Similarity of images and texts."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Far above float64's rounding, far below any difference between float32 vectors.
DECIMALS = 12
# Products held at once where an item of the corpus has several vectors: 25 MB.
TILE = 3 * 2**20
# Numbers of each side of some pairs at once: half a megabyte stays in a core's cache.
PAIRED = 2**16


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
    return cosines(unit(targets), unit(corpus))


def unit(vectors: Float[Tensor, "*n width"], out: Tensor | None = None) -> Float[Tensor, "*n width"]:
    """Vectors of unit length in float64; stored ones are of unit length to float32 only.

    Args:
        vectors: of any length but zero.
        out: where they are put; None: in memory of their own.
    """
    copy = vectors.to(torch.float64, copy=True) if out is None else out.copy_(vectors)
    return torch.nn.functional.normalize(copy, dim=-1, out=copy)


def cosines(x: Float[Tensor, "n *qx width"], y: Float[Tensor, "m *qy width"]) -> Float[Tensor, "n m"]:
    """`similarity` of vectors that `unit` has seen: who meets them block by block calls it once.

    Args:
        x, y: float64, of unit length; [N, D] or [N, Q, D], [M, D] or [M, Q, D].

    Returns:
        Similarities [N, M], rounded to 12 decimals.

    Raises:
        ValueError: both sides have several vectors, or the widths differ.
    """
    if x.ndim == 3 and y.ndim == 3:
        raise ValueError("one side must be texts: both have several vectors per item")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"vectors of width {x.shape[-1]} meet vectors of {y.shape[-1]}")
    # A matrix product rounds equal columns differently; equal vectors must be equally similar, or
    # ties would be broken by chance and a deviation of nothing be taken for one. Rounding keeps
    # the order, so it may follow the choice of the largest.
    return products(x, y).round_(decimals=DECIMALS)


def products(x: Float[Tensor, "n *qx width"], y: Float[Tensor, "m *qy width"]) -> Float[Tensor, "n m"]:
    """Inner products, the largest of an item's; in the vectors' own precision, not rounded."""
    if x.ndim == 3:
        return (x.flatten(0, 1) @ y.T).reshape(*x.shape[:2], len(y)).amax(dim=1)
    if y.ndim == 2:
        return x @ y.T
    found = x.new_empty(len(x), len(y))
    items = max(1, TILE // max(1, len(x) * y.shape[1]))
    for start in range(0, len(y), items):
        tile = y[start : start + items]
        products = x @ tile.flatten(0, 1).T
        found[:, start : start + items] = products.reshape(len(x), *tile.shape[:2]).amax(dim=2)
    return found


def paired(x: Tensor, y: Tensor, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`cosines` of some pairs alone: of row `rows[p]` of x with row `columns[p]` of y, [P]."""
    # An item of one vector meets each of an item's several.
    own, other = (one.numpy() if one.ndim == 3 else one.numpy()[:, None] for one in (x, y))
    size = max(1, PAIRED // max(math.prod(one.shape[1:]) for one in (own, other)))
    found = np.empty(len(rows))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        products = np.vecdot(own.take(rows[part], axis=0), other.take(columns[part], axis=0))
        products.max(axis=1, out=found[part])
    return found.round(DECIMALS)
