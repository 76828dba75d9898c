"""Spearman's rho of resampled units: one rho per draw of integer weights, and their interval."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

# Numbers per array of one block of draws: 2 MB, five of them at once; measured faster than 1 or 32 MB.
BLOCK = 2**18
LEAST = 3
PERCENTILES = (2.5, 97.5)


def weighted_spearman(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], weights: Int[np.ndarray, "r n"]
) -> Float[np.ndarray, " r"]:
    """Spearman's rho of the samples in which unit i stands weights[r, i] times, with midranks.

    Equal to repeating the units and ranking anew, without doing so: units are sorted once, and the
    midrank of a run of ties follows from the weights that lie below it.

    Args:
        x, y: [N], the two scores; a unit with a NaN has weight 0 in every draw.
        weights: [R, N], not negative.

    Returns:
        [R], float64; NaN where one side of a sample is constant or fewer than 3 are in it.

    >>> weighted_spearman(np.arange(4.0), np.array([1.0, 0, 2, 3]), np.array([[1, 1, 1, 1], [0, 2, 1, 1]]))
    array([0.8, 1. ])
    """
    defined = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    # Sorted by x, so that only y needs a second order.
    order = defined[np.argsort(x[defined], kind="stable")]
    second = np.argsort(y[order], kind="stable")
    runs_x, runs_y = _runs(x[order]), _runs(y[order][second])
    of_x = np.repeat(np.arange(len(runs_x)), np.diff(runs_x, prepend=0))
    of_y = np.empty_like(of_x)
    of_y[second] = np.repeat(np.arange(len(runs_y)), np.diff(runs_y, prepend=0))
    found = np.full(len(weights), math.nan)
    if not len(order):
        return found
    step = max(1, BLOCK // len(order))
    for start in range(0, len(weights), step):
        # One row per unit: sums run down the rows, all draws of the block at once.
        block = weights[start : start + step, order].T.astype(float)
        ranks_x, squares_x = _midranks(block, runs_x)
        ranks_y, squares_y = _midranks(block[second], runs_y)
        products = np.einsum("nr,nr,nr->r", block, ranks_x[of_x], ranks_y[of_y])
        # Half-integers, summed exactly: a constant side has a sum of squares of 0, not of 1e-17.
        squares = squares_x * squares_y
        defined = (block.sum(axis=0) >= LEAST) & (squares > 0)
        np.divide(products, np.sqrt(squares), out=found[start : start + step], where=defined)
    return found


def _runs(values: np.ndarray) -> np.ndarray:
    # Where each run of equal values ends, exclusive.
    return np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))


def _midranks(weights: np.ndarray, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Midrank of each run of ties less the mean of all ranks, [runs, R], and the sum of its squares, [R].
    through = weights.cumsum(axis=0)[runs - 1]
    before = np.zeros_like(through)
    before[1:] = through[:-1]
    ranks = (before + through - through[-1]) / 2
    return ranks, np.einsum("ur,ur,ur->r", through - before, ranks, ranks)


def interval(draws: ArrayLike) -> tuple[float, float]:
    """Percentile interval of a bootstrap, nominally 95%.

    Args:
        draws: the statistic of each draw; NaN where it is undefined.

    Returns:
        The 2.5th and 97.5th percentile of the finite draws; NaN, NaN where fewer than half of the
        draws are finite, for the others would say nothing of them.

    >>> interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    values = np.asarray(draws, dtype=float)
    finite = values[np.isfinite(values)]
    if not len(finite) or 2 * len(finite) < len(values):
        return math.nan, math.nan
    low, high = np.percentile(finite, PERCENTILES)
    return float(low), float(high)
