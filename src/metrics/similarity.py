"""Compute similarities of images and texts."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Decimals of similarities: coarser than rounding errors of float64 (1e-16), finer than those of float32
# vectors (6e-8).
DECIMALS = 12
# Maximum number of float64 products in memory (25 MB) if items of the corpus have several vectors.
TILE = 3 * 2**20
# Maximum number of float64 values per side of a block of pairs (0.5 MB, which fits into a core's cache).
PAIR_BLOCK = 2**16


def similarity(
    targets: Float[Tensor, "n *qx width"], corpus: Float[Tensor, "m *qy width"]
) -> Float[Tensor, "n m"]:
    """Compute the cosine of each target with each item of a corpus, in float64.

    For an image with several vectors (BLIP-2), the similarity is its largest cosine: a choice of this
    project, as Ghate et al. 2025 do not specify it.

    Args:
        targets: [N, D], or [N, Q, D] for images with Q vectors; no vector is zero.
        corpus: [M, D], or [M, Q, D] for images with Q vectors; no vector is zero.

    Returns:
        Similarities [N, M], rounded to 12 decimals.

    Raises:
        ValueError: targets and corpus both have several vectors per item, or their widths differ.

    >>> similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0], [-2.0, 0.0]]))
    tensor([[ 0.6000, -1.0000]], dtype=torch.float64)
    """
    return cosines(normalise(targets), normalise(corpus))


def normalise(vectors: Float[Tensor, "*n width"], out: Tensor | None = None) -> Float[Tensor, "*n width"]:
    """Normalise vectors to unit length in float64; stored vectors have unit length only to float32.

    Args:
        vectors: vectors of nonzero length.
        out: tensor to write to; None allocates a new one.

    >>> normalise(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]], dtype=torch.float64)
    """
    copy = vectors.to(torch.float64, copy=True) if out is None else out.copy_(vectors)
    return torch.nn.functional.normalize(copy, dim=-1, out=copy)


def pool_vectors(vectors: Float[Tensor, "n *q width"]) -> Float[Tensor, "n width"]:
    """Average the vectors of each image into a single unit vector; return single vectors unchanged.

    >>> pool_vectors(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    tensor([[0.7071, 0.7071]], dtype=torch.float64)
    """
    if vectors.ndim == 2:
        return vectors
    return torch.nn.functional.normalize(vectors.double().mean(dim=1), dim=-1)


def cosines(x: Float[Tensor, "n *qx width"], y: Float[Tensor, "m *qy width"]) -> Float[Tensor, "n m"]:
    """Compute `similarity` of vectors that are already of unit length.

    Args:
        x: float64 unit vectors, [N, D], or [N, Q, D] for images with Q vectors.
        y: float64 unit vectors, [M, D], or [M, Q, D] for images with Q vectors.

    Returns:
        Similarities [N, M], rounded to 12 decimals.

    Raises:
        ValueError: x and y both have several vectors per item, or their widths differ.

    >>> cosines(torch.eye(2).double(), torch.tensor([[0.6, 0.8]]).double())
    tensor([[0.6000],
            [0.8000]], dtype=torch.float64)
    """
    if x.ndim == 3 and y.ndim == 3:
        raise ValueError("x and y both have several vectors per item: expected single vectors on one side")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"expected vectors of equal width, got {x.shape[-1]} and {y.shape[-1]}")
    # A matrix product may round equal columns differently: without rounding to 12 decimals, ties would be
    # broken at random, and a standard deviation of zero might become positive. Rounding preserves order, so
    # it can follow the maximum over vectors.
    return inner_products(x, y).round_(decimals=DECIMALS)


def inner_products(x: Float[Tensor, "n *qx width"], y: Float[Tensor, "m *qy width"]) -> Float[Tensor, "n m"]:
    """Compute the inner product of each pair (the maximum over an item's vectors), without rounding."""
    if x.ndim == 3:
        return (x.flatten(0, 1) @ y.T).reshape(*x.shape[:2], len(y)).amax(dim=1)
    if y.ndim == 2:
        return x @ y.T
    maxima = x.new_empty(len(x), len(y))
    size = max(1, TILE // max(1, len(x) * y.shape[1]))
    for start in range(0, len(y), size):
        tile = y[start : start + size]
        tile_products = x @ tile.flatten(0, 1).T
        maxima[:, start : start + size] = tile_products.reshape(len(x), *tile.shape[:2]).amax(dim=2)
    return maxima


def paired_cosines(x: Tensor, y: Tensor, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute `cosines` of P pairs only: row `rows[p]` of x with row `columns[p]` of y, [P]."""
    # Items with a single vector get an axis of length 1.
    left, right = (vectors.numpy() if vectors.ndim == 3 else vectors.numpy()[:, None] for vectors in (x, y))
    size = max(1, PAIR_BLOCK // max(math.prod(vectors.shape[1:]) for vectors in (left, right)))
    maxima = np.empty(len(rows))
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        pair_products = np.vecdot(left.take(rows[block], axis=0), right.take(columns[block], axis=0))
        pair_products.max(axis=1, out=maxima[block])
    return maxima.round(DECIMALS)
