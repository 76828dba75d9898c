"""Compute SC-EAT with large attribute sets from a QR decomposition, faster than from similarities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from src.metrics.association import check_sizes

# Rows of the triangles that are multiplied with a block of targets at once.
ROWS = 64
# Below this deviation the effect size is NaN: it depends on the rounding of similarities to 12 decimals, and
# `sc_eats` must compute it from them.
MIN_DEVIATION = 1e-3


@dataclass(frozen=True)
class Factors:
    """Statistics of S pairs of attribute sets A and B that determine any target's SC-EAT.

    Attributes:
        mean_differences: [D, S] mean of A minus mean of B.
        triangles: rows of each pair's R, transposed, `ROWS` at a time: [D - first row, S x rows]; left of
            the diagonal R is 0. The deviation of a target's cosines is the norm of R times the target.
    """

    mean_differences: Float[Tensor, "width s"]
    triangles: list[Tensor]


def factorise(
    items: Float[Tensor, "m width"], a: Sequence[np.ndarray], b: Sequence[np.ndarray], ddof: int = 1
) -> Factors:
    """Compute R of X = QR for each pair of sets: |Xw| = |Rw| is the deviation of target w's cosines.

    X holds A and B minus their mean, divided by the square root of their number minus ddof.

    Args:
        items: [M, D], float64 unit vectors of the items.
        a: row indices of the items of A of each pair.
        b: row indices of the items of B of each pair.
        ddof: delta degrees of freedom, see `sc_eat`.

    Raises:
        ValueError: see `sc_eat`.

    >>> factorise(torch.eye(2).double(), [np.array([0])], [np.array([1])]).mean_differences.T
    tensor([[ 1., -1.]], dtype=torch.float64)
    """
    width, mean_differences, triangles = items.shape[1], [], []
    for rows_a, rows_b in zip(a, b, strict=True):
        check_sizes(len(rows_a), len(rows_b), ddof)
        vectors_a, vectors_b = items[rows_a], items[rows_b]
        mean_differences.append(vectors_a.mean(dim=0) - vectors_b.mean(dim=0))
        vectors = torch.cat([vectors_a, vectors_b])
        r = torch.linalg.qr((vectors - vectors.mean(dim=0)) / math.sqrt(len(vectors) - ddof), mode="r").R
        triangles.append(torch.nn.functional.pad(r, (0, 0, 0, width - len(r))))
    stacked = torch.stack(triangles)
    starts = range(0, width, ROWS)
    blocks = [stacked[:, start : start + ROWS, start:].permute(2, 0, 1).flatten(1) for start in starts]
    return Factors(torch.stack(mean_differences, dim=1), blocks)


def sc_eats_qr(x: Float[Tensor, "n width"], factors: Factors) -> Float[Tensor, "n s"]:
    """Compute `sc_eats` from factors of the attribute sets, without `cosines`.

    Args:
        x: [N, D], float64 unit vectors of the targets.
        factors: result of `factorise` for the S pairs of attribute sets.

    Returns:
        Effect sizes [N, S]; NaN where the deviation is below a thousandth: so small a deviation depends on
        the rounding of `cosines`, from which `sc_eats` computes it.

    >>> items = torch.eye(2).double()
    >>> sc_eats_qr(items, factorise(items, [np.array([0])], [np.array([1])]))
    tensor([[ 1.4142],
            [-1.4142]], dtype=torch.float64)
    """
    squares = torch.zeros(len(x), factors.mean_differences.shape[1], dtype=torch.float64)
    for index, triangle in enumerate(factors.triangles):
        products = x[:, index * ROWS :] @ triangle
        squares += products.square_().view(*squares.shape, -1).sum(dim=2)
    deviation = squares.sqrt_()
    return (x @ factors.mean_differences) / deviation.masked_fill_(deviation < MIN_DEVIATION, math.nan)
