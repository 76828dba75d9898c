"""Sum similarities over many attribute sets at once, as products of matrices."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Sets of at least this share of a pool are multiplied as a dense matrix, which is faster there.
DENSE = 0.02


@dataclass(frozen=True)
class Sets:
    """A and B of R worlds, to be multiplied with similarities of N targets (`added`).

    Attributes:
        a, b: sums over A and over B: of the pool's items [R, M], or of their vectors [R, D].
        both: matrix [R, M] of ones, for A and B concatenated.
        n_a, n_b: sizes of A and B.
    """

    a: Tensor
    b: Tensor
    both: Tensor
    n_a: int
    n_b: int

    @classmethod
    def of(
        cls, a: np.ndarray, b: np.ndarray, known: Mapping[int, tuple[Tensor, Tensor]], vectors: Tensor | None
    ) -> Sets:
        """From positions [R, n].

        Args:
            a, b: positions of A and B.
            known: by the id of each B its matrix of ones and its sum: it may serve several A.
            vectors: see `summed`.
        """
        ones_b, sum_b = known[id(b)]
        ones_a = indicator(a, ones_b.shape[1])
        return cls(summed(ones_a, vectors), sum_b, ones_a + ones_b, a.shape[1], b.shape[1])


def summed(ones: Tensor, vectors: Tensor | None) -> Tensor:
    """What a set adds up to: the sum of its vectors where it is dense and these are narrower than the pool.

    The sum of a target's similarities with a set is its similarity with the sum of the set's vectors.

    Args:
        ones: [R, M].
        vectors: of the items, [M, D]; None where items or targets have several.
    """
    if vectors is None or ones.layout != torch.strided or vectors.shape[1] >= len(vectors):
        return ones
    return ones @ vectors


def added(sums: Tensor, near: Tensor, vectors: Tensor | None) -> Tensor:
    """Sums of similarities over sets, [R, N].

    Args:
        sums: see `summed`.
        near: similarities [M, N] of the pool's items with N targets.
        vectors: of the targets, [D, N]; needed where sums are of vectors.
    """
    if sums.shape[1] == len(near):
        return sums @ near
    assert vectors is not None
    return sums @ vectors


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
