"""Compute similarities of images and texts."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Much coarser than float64's rounding, much finer than any difference between float32 vectors.
DECIMALS = 12
# Maximum float64 products in memory at once where an item of the corpus has several vectors: 25 MB.
TILE = 3 * 2**20
# Maximum float64 numbers per side of a block of pairs: half a megabyte, which fits a core's cache.
PAIR_BLOCK = 2**16


def similarity(
    targets: Float[Tensor, "n *qx width"], corpus: Float[Tensor, "m *qy width"]
) -> Float[Tensor, "n m"]:
    """Compute the cosine of each target with each item of a corpus, in float64.

    For an image of several vectors (BLIP-2) the largest cosine counts. This is a choice of this project:
    Ghate et al. 2025 do not specify it.

    Args:
        targets: [N, D], or [N, Q, D] for images of Q vectors; of nonzero length.
        corpus: [M, D], or [M, Q, D]; likewise.

    Returns:
        Similarities [N, M], rounded to 12 decimals.

    Raises:
        ValueError: both sides have several vectors, or the widths differ.

    >>> similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0], [-2.0, 0.0]]))
    tensor([[ 0.6000, -1.0000]], dtype=torch.float64)
    """
    return cosines(unit(targets), unit(corpus))


def unit(vectors: Float[Tensor, "*n width"], out: Tensor | None = None) -> Float[Tensor, "*n width"]:
    """Normalise vectors to unit length in float64; stored vectors have unit length only to float32.

    Args:
        vectors: vectors of nonzero length.
        out: tensor to write to; None allocates a new one.

    >>> unit(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]], dtype=torch.float64)
    """
    copy = vectors.to(torch.float64, copy=True) if out is None else out.copy_(vectors)
    return torch.nn.functional.normalize(copy, dim=-1, out=copy)


def pool_vectors(vectors: Float[Tensor, "n *q width"]) -> Float[Tensor, "n width"]:
    """Average an image's several vectors into a single unit vector; return single vectors unchanged.

    >>> pool_vectors(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    tensor([[0.7071, 0.7071]], dtype=torch.float64)
    """
    if vectors.ndim == 2:
        return vectors
    return torch.nn.functional.normalize(vectors.double().mean(dim=1), dim=-1)


def cosines(x: Float[Tensor, "n *qx width"], y: Float[Tensor, "m *qy width"]) -> Float[Tensor, "n m"]:
    """Compute `similarity` of vectors that are already of unit length (normalised once for many blocks).

    Args:
        x: vectors, float64, of unit length; [N, D], or [N, Q, D] for images of Q vectors.
        y: vectors, float64, of unit length; [M, D], or [M, Q, D] for images of Q vectors.

    Returns:
        Similarities [N, M], rounded to 12 decimals.

    Raises:
        ValueError: both sides have several vectors, or the widths differ.

    >>> cosines(torch.eye(2).double(), torch.tensor([[0.6, 0.8]]).double())
    tensor([[0.6000],
            [0.8000]], dtype=torch.float64)
    """
    if x.ndim == 3 and y.ndim == 3:
        raise ValueError("both sides have several vectors per item: one side must have single vectors")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"expected vectors of equal width, got {x.shape[-1]} and {y.shape[-1]}")
    # A matrix product may round equal columns differently: ties would be broken at random, and a standard
    # deviation of zero could be mistaken for a positive one. Rounding preserves order, so it can follow the
    # maximum.
    return products(x, y).round_(decimals=DECIMALS)


def products(x: Float[Tensor, "n *qx width"], y: Float[Tensor, "m *qy width"]) -> Float[Tensor, "n m"]:
    """Compute inner products, the maximum per item; in the precision of the vectors, not rounded."""
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
    """Compute `cosines` of single pairs, row `rows[p]` of x with row `columns[p]` of y, [P]."""
    # Items of a single vector get an axis of length 1.
    left, right = (vectors.numpy() if vectors.ndim == 3 else vectors.numpy()[:, None] for vectors in (x, y))
    size = max(1, PAIR_BLOCK // max(math.prod(vectors.shape[1:]) for vectors in (left, right)))
    maxima = np.empty(len(rows))
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        dots = np.vecdot(left.take(rows[block], axis=0), right.take(columns[block], axis=0))
        dots.max(axis=1, out=maxima[block])
    return maxima.round(DECIMALS)
