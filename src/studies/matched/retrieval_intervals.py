"""Compute intervals of shares, Bias@K and order by leaving out sets (docs/methods.md, section 8)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from src import metrics
from src.studies.matched.intervals import average_sets, compute_intervals, nanmean
from src.studies.matched.pool import Pool
from src.studies.matched.retrieval import Retrieved


@dataclass(frozen=True)
class Intervals:
    """Statistics of each caption and, last, their means, with their intervals: [W + 1, S] each.

    `reasons` are why a row has no interval, [W + 1]; empty where it has one.
    """

    estimates: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reasons: list[str]

    def columns(self, name: str, statistics: slice, bounds: tuple[float, float]) -> dict[str, np.ndarray]:
        """Return the ends of some statistics, cut at bounds, as columns `NAME_low` and `NAME_high`."""
        ends = {"low": self.low, "high": self.high}
        return {f"{name}_{end}": np.clip(values[:, statistics], *bounds) for end, values in ends.items()}


def compute_share_intervals(
    pool: Pool, retrieved: Retrieved, sides: Sequence[np.ndarray], majorities: np.ndarray
) -> Intervals:
    """Compute the intervals of G shares, Bias@K, and the share of the majority.

    A unit's pictures leave the retrieved ones and are not replaced.

    Args:
        pool: pictures.
        retrieved: the pictures that captions retrieve.
        sides: masks [G] of the groups of both sides of Bias@K; empty for none.
        majorities: [W], index of the majority of each caption's subject; -1 for none.
    """
    is_member = pool.is_member

    def measure(row: int, masks: np.ndarray) -> np.ndarray:
        counts = masks.astype(float) @ is_member[retrieved.top[row]]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = counts / counts.sum(axis=1, keepdims=True)
        undefined = np.full(len(masks), np.nan)
        bias = (
            metrics.bias_at_k(*(counts[:, side].sum(axis=1) for side in sides)) if len(sides) else undefined
        )
        majority = shares[:, majorities[row]] if majorities[row] >= 0 else undefined
        return np.column_stack([shares, bias, majority])

    rows = range(len(retrieved.top))
    results = [compute_intervals(pool.units[retrieved.top[row]], partial(measure, row)) for row in rows]

    def average(masks: np.ndarray) -> np.ndarray:
        return nanmean(np.stack([measure(row, masks[:, retrieved.top[row]]) for row in rows]), 0)

    return _stack([*results, compute_intervals(pool.units, average)])


def compute_order_intervals(pool: Pool, retrieved: Retrieved) -> Intervals:
    """Compute the intervals of the G mean ranks, and of the G shares of sets whose nearest is of a group."""
    units = pd.Series(pool.units).groupby(pool.set_of).first().to_numpy(dtype=str)
    orders = [_average_in_sets(pool, retrieved, row) for row in range(len(retrieved.top))]
    results = [compute_intervals(units[sets], partial(average_sets, values)) for sets, values in orders]

    def average(masks: np.ndarray) -> np.ndarray:
        return nanmean(np.stack([average_sets(values, masks[:, sets]) for sets, values in orders]), 0)

    return _stack([*results, compute_intervals(units, average)])


def _average_in_sets(pool: Pool, retrieved: Retrieved, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sets of a caption, and the groups' mean ranks and sums of firsts in each, [T, 2 G]."""
    right, n_groups = retrieved.right[retrieved.subject_of[row]], len(pool.groups)
    sets, positions = np.unique(pool.set_of[right], return_inverse=True)
    values = np.stack([retrieved.ranks[row], retrieved.firsts[row]])
    ranks, firsts = metrics.set_means(values, pool.group_of[right], positions, n_groups)
    counts = np.bincount(positions * n_groups + pool.group_of[right], minlength=firsts.size)
    return sets, np.hstack([ranks, firsts * counts.reshape(firsts.shape)])


def _stack(results: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, str]]) -> Intervals:
    estimates, low, high, reasons = zip(*results, strict=True)
    return Intervals(np.stack(estimates), np.stack(low), np.stack(high), [*reasons])
