"""The largest of many rows, exactly, without sorting any: what `retrieval` finds its items with."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

# Of a row so many, evenly, tell about how large the k-th largest is.
SAMPLED = 1024
# A row of fewer than so many times that is asked as a whole.
WORTH = 4
# Values from which on threads share them.
SPLIT = 2**18


@dataclass(frozen=True)
class Candidates:
    """Items that may be among the k largest of their row.

    Attributes:
        rows, columns: [C] where they stand, row by row, ascending.
        sure: [C] whether they are for certain.
        k: how many of each row are.
    """

    rows: np.ndarray
    columns: np.ndarray
    sure: np.ndarray
    k: int

    @cached_property
    def unsure(self) -> np.ndarray:
        """Which of them are chosen from, ascending."""
        return np.flatnonzero(~self.sure)

    def largest(self, values: np.ndarray) -> np.ndarray:
        """[N, k] columns of the k largest of each row, ascending; of equal ones the first.

        Args:
            values: of those that are unsure.
        """
        unsure = self.unsure
        if not len(unsure):
            found: np.ndarray = self.columns.reshape(-1, self.k)
            return found
        missing = self.k - np.bincount(self.rows[self.sure], minlength=self.rows[-1] + 1)
        # A stable sort: equal ones stay in order of position.
        unsure = unsure[np.lexsort((-values, self.rows[unsure]))]
        rows = self.rows[unsure]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        taken = self.sure.copy()
        taken[unsure[rank < missing[rows]]] = True
        found = self.columns[taken].reshape(-1, self.k)
        return found


def candidates(values: Tensor, k: int, slack: float = 0.0) -> Candidates:
    """All that are at least the k-th largest of their row less a slack; sure are those above it by more.

    Args:
        values: [N, M], finite.
        k: from 1 to M.
        slack: 0 or more.
    """
    # numpy works on one core, and lets go of the interpreter while it does. What is small is worth no
    # thread: an allocator keeps some of the memory that each has of its own.
    threads = torch.get_num_threads() if values.numel() >= SPLIT else 1
    parts = np.array_split(values.numpy(), threads)
    of = partial(_candidates, k=k, slack=slack)
    if threads == 1:
        found = [of(parts[0])]
    else:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(of, parts))
    starts = np.cumsum([0, *map(len, parts[:-1])])
    for (own, _, _), start in zip(found, starts, strict=True):
        own += start
    rows, columns, sure = (np.concatenate([own[place] for own in found]) for place in range(3))
    return Candidates(rows, columns, sure, k)


def _candidates(values: np.ndarray, k: int, slack: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    floor, exact = _floor(values, k)
    rows, columns, kept = above(values, floor - slack)
    if exact:
        if len(rows) == k * len(values):
            return rows, columns, np.ones(len(rows), dtype=bool)
        return rows, columns, kept > (floor + slack).take(rows)
    least = _kth(padded(rows, kept, len(values)), k)
    # A sample is no bound: where less was found than it promised, the whole row is asked.
    if (wrong := least < floor).any():
        least[wrong] = _kth(values[wrong], k)
        rows, columns, kept = above(values, least - slack)
    near = np.flatnonzero(kept >= (least - slack).take(rows))
    rows, columns, kept = rows.take(near), columns.take(near), kept.take(near)
    return rows, columns, kept > (least + slack).take(rows)


def _floor(values: np.ndarray, k: int) -> tuple[np.ndarray, bool]:
    """[N] what at least k of each row most likely reach, and not many more; whether it is the k-th itself."""
    step = max(1, values.shape[1] // SAMPLED)
    expected = k / step
    # Four standard deviations more than expected.
    rank = math.ceil(expected + 4 * math.sqrt(expected))
    if step < WORTH or rank > SAMPLED / 2:
        return _kth(values, k), True
    return _kth(values[:, ::step], rank), False


def _kth(values: np.ndarray, k: int) -> np.ndarray:
    """[N] the k-th largest of each row; minus infinity where there are fewer."""
    place = values.shape[1] - k
    if place < 0:
        return np.full(len(values), -np.inf, values.dtype)
    return np.partition(values, place, axis=1)[:, place]


def above(values: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of all that is at least its row's bound, row by row, ascending."""
    reached = values >= bounds[:, None]
    rows = np.repeat(np.arange(len(values)), np.count_nonzero(reached, axis=1))
    flat = np.flatnonzero(reached)
    # By one place in all of them: several times as fast as by row and column.
    return rows, flat - rows * values.shape[1], values.reshape(-1).take(flat)


def padded(rows: np.ndarray, values: np.ndarray, count: int, fill: float = -np.inf) -> np.ndarray:
    """[count, most] values of each row, side by side; filled up."""
    counts = np.bincount(rows, minlength=count)
    found = np.full((count, counts.max(initial=0)), fill, values.dtype)
    found[rows, np.arange(len(rows)) - (counts.cumsum() - counts)[rows]] = values
    return found
