"""The largest of many rows, exactly, without sorting any: what `retrieval` finds its items with."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

# Of a row so many, evenly, tell about how large the k-th largest is.
SAMPLED = 1024
# A row of fewer than so many times that is asked as a whole.
WORTH = 4
# Values from which on threads share them.
SPLIT = 2**18


# Of some rows and columns, in order, the values as they are.
Exactly = Callable[[np.ndarray, np.ndarray], np.ndarray]


def largest(values: Tensor, k: int, exactly: Exactly, slack: float = 0.0) -> Tensor:
    """[N, k] columns of the k largest of each row, ascending; of equal ones the first.

    What is above the k-th largest by more than a slack is one of them, what is below it by more is none; of
    the others the exact values decide.

    Args:
        values: [N, M], finite, each less than half the slack off.
        k: from 1 to M.
        exactly: see `Exactly`; is asked on several threads.
        slack: 0 or more.
    """
    # numpy works on one core, and lets go of the interpreter while it does. What is small is worth no
    # thread: an allocator keeps some of the memory that each has of its own.
    threads = torch.get_num_threads() if values.numel() >= SPLIT else 1
    parts = np.array_split(values.numpy(), threads)
    starts = np.cumsum([0, *map(len, parts[:-1])]).tolist()
    of = partial(_largest, k=k, exactly=exactly, slack=slack)
    if threads == 1:
        return torch.from_numpy(of(parts[0], 0))
    with ThreadPoolExecutor(threads) as pool:
        return torch.from_numpy(np.concatenate([*pool.map(of, parts, starts)]))


def _largest(values: np.ndarray, start: int, k: int, exactly: Exactly, slack: float) -> np.ndarray:
    rows, columns, sure = _candidates(values, k, slack)
    unsure = np.flatnonzero(~sure)
    if len(unsure):
        exact = exactly(rows[unsure] + start, columns[unsure])
        missing = k - np.bincount(rows[sure], minlength=len(values))
        # A stable sort: equal ones stay in order of position.
        unsure = unsure[np.lexsort((-exact, rows[unsure]))]
        of = rows[unsure]
        rank = np.arange(len(of)) - np.searchsorted(of, of)
        sure[unsure[rank < missing[of]]] = True
        columns = columns[sure]
    found: np.ndarray = columns.reshape(-1, k)
    return found


def _candidates(values: np.ndarray, k: int, slack: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of what may be among the k largest of its row, in order, and whether it surely is."""
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
