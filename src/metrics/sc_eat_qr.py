"""SC-EAT with sets of many items, of vectors and without a similarity: in less time than these take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from src.metrics.association import checked

# Rows of the triangles that meet a block of targets at once.
ROWS = 64
# Of less deviation no effect size is told: by similarities, rounded to a billionth of this, it is what
# `sc_eats` says, and undefined where they are equal.
LEAST = 1e-3


@dataclass(frozen=True)
class Factors:
    """What of A and B decides any target's SC-EAT, for each of S contents.

    Attributes:
        apart: [D, S] mean of A less mean of B.
        triangles: rows of each content's R, transposed, `ROWS` at a time: [D - first row, S x rows]; left of
            the diagonal R is 0. The deviation of a target's cosines is the length of R by the target.
    """

    apart: Float[Tensor, "width s"]
    triangles: list[Tensor]


def factors(
    items: Float[Tensor, "m width"], a: Sequence[np.ndarray], b: Sequence[np.ndarray], ddof: int = 1
) -> Factors:
    """R of X = QR for each content: |Xw| = |Rw|, the deviation of a target w's cosines.

    X is A and B, less their mean, divided by the root of their number less ddof.

    Args:
        items: float64, of unit length.
        a, b: positions of the items of A and of B, of each content.
        ddof: see `sc_eat`.

    Raises:
        ValueError: see `sc_eat`.
    """
    width, apart, found = items.shape[1], [], []
    for one, other in zip(a, b, strict=True):
        checked(len(one), len(other), ddof)
        to_a, to_b = items[one], items[other]
        apart.append(to_a.mean(dim=0) - to_b.mean(dim=0))
        both = torch.cat([to_a, to_b])
        r = torch.linalg.qr((both - both.mean(dim=0)) / math.sqrt(len(both) - ddof), mode="r").R
        found.append(torch.nn.functional.pad(r, (0, 0, 0, width - len(r))))
    stacked = torch.stack(found)
    starts = range(0, width, ROWS)
    parts = [stacked[:, start : start + ROWS, start:].permute(2, 0, 1).flatten(1) for start in starts]
    return Factors(torch.stack(apart, dim=1), parts)


def sc_eats_by(x: Float[Tensor, "n width"], known: Factors) -> Float[Tensor, "n s"]:
    """`sc_eats` of `cosines`, which are not computed.

    Args:
        x: targets, float64, of unit length.
        known: of the attribute sets.

    Returns:
        Effect sizes [N, S]; NaN where the deviation is below a thousandth: what the rounding of `cosines`
        makes of so little has to be asked of them.
    """
    squares = torch.zeros(len(x), known.apart.shape[1], dtype=torch.float64)
    for number, triangle in enumerate(known.triangles):
        found = x[:, number * ROWS :] @ triangle
        squares += found.square_().view(*squares.shape, -1).sum(dim=2)
    deviation = squares.sqrt_()
    return (x @ known.apart) / deviation.masked_fill_(deviation < LEAST, math.nan)
