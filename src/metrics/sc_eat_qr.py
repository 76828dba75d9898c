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
# Below this deviation no effect size is returned: `sc_eats` computes it from similarities, rounded to a
# billionth of this, and leaves it undefined where they are equal.
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


def factors(
    items: Float[Tensor, "m width"], a: Sequence[np.ndarray], b: Sequence[np.ndarray], ddof: int = 1
) -> Factors:
    """Compute R of X = QR for each pair of sets: |Xw| = |Rw| is the deviation of a target w's cosines.

    X holds A and B minus their mean, divided by the square root of their number minus ddof.

    Args:
        items: vectors, float64, of unit length.
        a: positions of the items of A of each pair.
        b: positions of the items of B of each pair.
        ddof: delta degrees of freedom, see `sc_eat`.

    Raises:
        ValueError: see `sc_eat`.

    >>> factors(torch.eye(2).double(), [np.array([0])], [np.array([1])]).mean_differences.T
    tensor([[ 1., -1.]], dtype=torch.float64)
    """
    width, mean_differences, triangles = items.shape[1], [], []
    for in_a, in_b in zip(a, b, strict=True):
        check_sizes(len(in_a), len(in_b), ddof)
        to_a, to_b = items[in_a], items[in_b]
        mean_differences.append(to_a.mean(dim=0) - to_b.mean(dim=0))
        both = torch.cat([to_a, to_b])
        r = torch.linalg.qr((both - both.mean(dim=0)) / math.sqrt(len(both) - ddof), mode="r").R
        triangles.append(torch.nn.functional.pad(r, (0, 0, 0, width - len(r))))
    stacked = torch.stack(triangles)
    starts = range(0, width, ROWS)
    blocks = [stacked[:, start : start + ROWS, start:].permute(2, 0, 1).flatten(1) for start in starts]
    return Factors(torch.stack(mean_differences, dim=1), blocks)


def sc_eats_by(x: Float[Tensor, "n width"], known: Factors) -> Float[Tensor, "n s"]:
    """Compute `sc_eats` without computing `cosines`.

    Args:
        x: targets, float64, of unit length.
        known: factors of the attribute sets.

    Returns:
        Effect sizes [N, S]; NaN where the deviation is below a thousandth: so small a deviation depends on
        the rounding of `cosines` and must be computed from them.

    >>> items = torch.eye(2).double()
    >>> sc_eats_by(items, factors(items, [np.array([0])], [np.array([1])]))
    tensor([[ 1.4142],
            [-1.4142]], dtype=torch.float64)
    """
    squares = torch.zeros(len(x), known.mean_differences.shape[1], dtype=torch.float64)
    for number, triangle in enumerate(known.triangles):
        products = x[:, number * ROWS :] @ triangle
        squares += products.square_().view(*squares.shape, -1).sum(dim=2)
    deviation = squares.sqrt_()
    return (x @ known.mean_differences) / deviation.masked_fill_(deviation < MIN_DEVIATION, math.nan)
