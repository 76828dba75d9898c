"""Compute jackknife intervals over sets (docs/methods.md, sections 6.2 and 8.1)."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from src.metrics.jackknife import compute_t_interval, replicate
from src.stimuli.clusters import CLUSTER
from src.studies.shared.cluster_jackknife import build_subsamples

# Jackknife variance below which a statistic counts as constant: its units differ only by rounding errors.
MIN_VARIANCE = 1e-20
# Masks of the remaining items of subsamples [P, n] -> statistics of each [P, S].
Statistics = Callable[[np.ndarray], np.ndarray]


def compute_intervals(
    units: np.ndarray, compute: Statistics
) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Compute S statistics and their intervals, by leaving out one unit at a time.

    Args:
        units: [n], name of each item's unit.
        compute: function that computes the statistics of subsamples.

    Returns:
        Estimates, lower and upper ends, [S] each, and why intervals are missing; empty if none is. A
        statistic that no unit changes has no interval.
    """
    estimates = compute(np.ones((1, len(units)), dtype=bool))[0]
    subsamples = build_subsamples(pd.DataFrame({CLUSTER: units}))
    if subsamples.reason:
        undefined = np.full(len(estimates), np.nan)
        reason = f"no interval: {subsamples.reason.replace('clusters', 'sets')}"
        return estimates, undefined, undefined, reason
    variances = replicate(subsamples, compute).variance()
    is_constant = variances < MIN_VARIANCE
    ends = [
        compute_t_interval(float(estimate), float(variance), subsamples.df)
        for estimate, variance in zip(estimates, np.where(is_constant, np.nan, variances), strict=True)
    ]
    low, high = np.array(ends).reshape(-1, 2).T
    return estimates, low, high, "no interval where all sets agree" if is_constant.any() else ""


def average_sets(values: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Average values of sets [T, S] over the sets of each mask [P, T], where they are defined: [P, S]."""
    is_defined = ~np.isnan(values)
    weights = masks.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(weights @ np.where(is_defined, values, 0) / (weights @ is_defined))


def nanmean(values: np.ndarray, axis: int) -> np.ndarray:
    """Average the defined values along an axis; NaN where none is defined."""
    is_defined = ~np.isnan(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(is_defined, values, 0).sum(axis=axis) / is_defined.sum(axis=axis))
