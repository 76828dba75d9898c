"""Select the exact k largest values of many rows without sorting them, as used by `retrieval`."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

# Number of evenly spaced values of a row from which the k-th largest is estimated.
SAMPLED = 1024
# Rows with less than this multiple of `SAMPLED` values are searched in full.
MIN_STEP = 4
# Minimum number of values for which several threads are used.
SPLIT = 2**18

# Function from rows and columns to the exact values at these pairs, in their order.
ExactValues = Callable[[np.ndarray, np.ndarray], np.ndarray]


def largest_columns(values: Tensor, k: int, exact_values: ExactValues, slack: float = 0.0) -> Tensor:
    """Return the columns of the k largest values of each row, [N, k], ascending; of equal values, the first.

    Values, [N, M] and finite, have errors below half the slack. Values above the k-th largest by more than
    the slack are selected, values below by more are not. `exact_values`, called by threads, decides others.
    """
    # numpy uses a single core but releases the interpreter lock. Small inputs do not justify threads: an
    # allocator retains some memory for each.
    threads = torch.get_num_threads() if values.numel() >= SPLIT else 1
    chunks = np.array_split(values.numpy(), threads)
    starts = np.cumsum([0, *map(len, chunks[:-1])]).tolist()
    select = partial(_largest, k=k, exact_values=exact_values, slack=slack)
    if threads == 1:
        return torch.from_numpy(select(chunks[0], 0))
    with ThreadPoolExecutor(threads) as pool:
        return torch.from_numpy(np.concatenate([*pool.map(select, chunks, starts)]))


def _largest(values: np.ndarray, start: int, k: int, exact_values: ExactValues, slack: float) -> np.ndarray:
    rows, columns, is_certain = _candidates(values, k, slack)
    uncertain = np.flatnonzero(~is_certain)
    if len(uncertain):
        exact = exact_values(rows[uncertain] + start, columns[uncertain])
        missing = k - np.bincount(rows[is_certain], minlength=len(values))
        # A stable sort leaves equal values in order of position.
        uncertain = uncertain[np.lexsort((-exact, rows[uncertain]))]
        uncertain_rows = rows[uncertain]
        rank = np.arange(len(uncertain_rows)) - np.searchsorted(uncertain_rows, uncertain_rows)
        is_certain[uncertain[rank < missing[uncertain_rows]]] = True
        columns = columns[is_certain]
    return np.asarray(columns.reshape(-1, k))


def _candidates(values: np.ndarray, k: int, slack: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows and columns of candidates for the k largest, in order, and a mask of certain ones."""
    floor, is_kth = _floor(values, k)
    rows, columns, candidates = values_above(values, floor - slack)
    if is_kth:
        if len(rows) == k * len(values):
            return rows, columns, np.ones(len(rows), dtype=bool)
        return rows, columns, candidates > (floor + slack).take(rows)
    bounds = _kth(pad_rows(rows, candidates, len(values)), k)
    # The floor is an estimate: rows with fewer than k values at or above it are searched in full.
    if (too_low := bounds < floor).any():
        bounds[too_low] = _kth(values[too_low], k)
        rows, columns, candidates = values_above(values, bounds - slack)
    near = np.flatnonzero(candidates >= (bounds - slack).take(rows))
    rows, columns, candidates = rows.take(near), columns.take(near), candidates.take(near)
    return rows, columns, candidates > (bounds + slack).take(rows)


def _floor(values: np.ndarray, k: int) -> tuple[np.ndarray, bool]:
    """Estimate a lower bound of the k largest of each row, [N], and return whether it is the k-th itself."""
    step = max(1, values.shape[1] // SAMPLED)
    expected = k / step
    # Four standard deviations more than expected.
    rank = math.ceil(expected + 4 * math.sqrt(expected))
    if step < MIN_STEP or rank > SAMPLED / 2:
        return _kth(values, k), True
    return _kth(values[:, ::step], rank), False


def _kth(values: np.ndarray, k: int) -> np.ndarray:
    """Return the k-th largest value of each row, [N]; minus infinity for rows with fewer values."""
    index = values.shape[1] - k
    if index < 0:
        return np.full(len(values), -np.inf, values.dtype)
    return np.partition(values, index, axis=1)[:, index]


def values_above(values: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values of all values at or above their row's bound, row by row, ascending."""
    reached = values >= bounds[:, None]
    rows = np.repeat(np.arange(len(values)), np.count_nonzero(reached, axis=1))
    flat = np.flatnonzero(reached)
    # Flat indices are several times as fast as rows and columns.
    return rows, flat - rows * values.shape[1], values.reshape(-1).take(flat)


def pad_rows(rows: np.ndarray, values: np.ndarray, count: int, fill: float = -np.inf) -> np.ndarray:
    """Arrange the values of each row side by side, [count, longest row], padded with a fill value."""
    counts = np.bincount(rows, minlength=count)
    table = np.full((count, counts.max(initial=0)), fill, values.dtype)
    table[rows, np.arange(len(rows)) - (counts.cumsum() - counts)[rows]] = values
    return table
