"""SC-EAT of many attribute sets at once: sums of similarities as products of matrices."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Sets of at least this share of a pool are multiplied as a dense matrix, which is faster there.
DENSE = 0.02
# A variance below this share of the mean square is rounding.
FLAT = 1e-12


@dataclass(frozen=True)
class Sets:
    """A and B of R worlds as matrices [R, M] of ones, to be multiplied with similarities [M, N].

    Attributes:
        a, b, both: of A, of B, and of their concatenation.
        n_a, n_b: sizes of A and B.
    """

    a: Tensor
    b: Tensor
    both: Tensor
    n_a: int
    n_b: int

    @classmethod
    def of(cls, a: np.ndarray, b: np.ndarray, known: Mapping[int, Tensor]) -> Sets:
        """From positions [R, n]; the matrix of B, known by its id, may serve several A."""
        matrix_b = known[id(b)]
        matrix_a = indicator(a, matrix_b.shape[1])
        return cls(matrix_a, matrix_b, matrix_a + matrix_b, a.shape[1], b.shape[1])


def indicator(chosen: np.ndarray, size: int) -> Tensor:
    """[R, size] matrix with a 1 for each of the positions `chosen` [R, n]; sparse where they are few."""
    count, n = chosen.shape
    if n >= DENSE * size:
        found = torch.zeros(count, size, dtype=torch.float64)
        return found.scatter_(1, torch.from_numpy(chosen), 1.0)
    starts = torch.arange(count + 1) * n
    columns = torch.from_numpy(np.sort(chosen, axis=1).reshape(-1))
    ones = torch.ones(count * n, dtype=torch.float64)
    with warnings.catch_warnings():
        # That this kind of tensor is young is no news to who runs an experiment.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support")
        return torch.sparse_csr_tensor(starts, columns, ones, size=(count, size), check_invariants=True)


def effects(to_a: Tensor, n_a: int, to_b: Tensor, n_b: int, squares: Tensor, ddof: int) -> Tensor:
    """SC-EAT from sums.

    Args:
        to_a, to_b: [R, N], sums of the similarities of N targets over A and over B.
        n_a, n_b: sizes of A and B.
        squares: [R, N], sums of their squares over both.
        ddof: see `src.metrics.sc_eat`.

    Returns:
        [R, N]; NaN where a deviation is 0.
    """
    n = n_a + n_b
    spread = squares - (to_a + to_b).square() / n
    spread = spread.masked_fill(spread <= FLAT * squares, torch.nan)
    return (to_a / n_a - to_b / n_b) / (spread / (n - ddof)).sqrt()
