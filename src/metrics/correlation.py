"""Correlate scores of the representation with outcomes of retrieval."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy import stats

from src.metrics.inference import TOLERANCE, draw_orders

# Number of values per array of a block of resamples, of which five arrays are in memory at once: 2 MB, faster
# than 1 MB and 32 MB.
BLOCK_VALUES = 2**18
MIN_UNITS = 3


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho.

    Attributes:
        rho: correlation from -1 to 1; NaN where undefined.
        p: asymptotic two-sided p of rho = 0, assuming independent units; for information only.
        n: number of included units.
        n_excluded: number of units that are excluded because a score is undefined.
        reason: why rho is undefined; empty where it is defined.
    """

    rho: float
    p: float
    n: int
    n_excluded: int
    reason: str = ""


def spearman(intrinsic: ArrayLike, extrinsic: ArrayLike) -> Correlation:
    """Compute Spearman's rank correlation over the units for which both scores are defined (scipy).

    Args:
        intrinsic: [N] scores; NaN where undefined.
        extrinsic: [N] scores; NaN where undefined.

    >>> spearman([1, 2, 3, float("nan")], [2, 4, 9, 1]).rho
    1.0
    """
    x, y = np.asarray(intrinsic, dtype=float), np.asarray(extrinsic, dtype=float)
    is_defined = ~(np.isnan(x) | np.isnan(y))
    n, n_excluded = int(is_defined.sum()), int((~is_defined).sum())
    x, y = x[is_defined], y[is_defined]
    reason = ""
    if n < MIN_UNITS:
        reason = f"{n} units: at least {MIN_UNITS} are needed"
    elif np.ptp(x) == 0:
        reason = "every unit has the same intrinsic score"
    elif np.ptp(y) == 0:
        reason = "every unit has the same outcome"
    if reason:
        return Correlation(math.nan, math.nan, n, n_excluded, reason)
    rho, p = stats.spearmanr(x, y)
    return Correlation(float(rho), float(p), n, n_excluded)


def spearman_columns(x: Float[np.ndarray, "n r"], y: Float[np.ndarray, "n s"]) -> Float[np.ndarray, " t"]:
    """Compute Spearman's rho, with midranks for ties, of each column of x with the same column of y.

    Args:
        x: [N, R] scores.
        y: [N, S] scores, with S = R, or S = 1 or R = 1 to correlate one column with all columns of the other.

    Returns:
        [T], T = max(R, S), float64; NaN where a column is constant or contains NaN, or for fewer than 3 rows.

    >>> spearman_columns(np.array([[1.0, 1], [2, 2], [3, 9]]), np.array([[1.0, 5], [2, 4], [3, 3]]))
    array([ 1., -1.])
    """
    rho = np.full(max(x.shape[1], y.shape[1]), math.nan)
    if len(x) < MIN_UNITS:
        return rho
    # scipy ranks on a single core but releases the interpreter lock while sorting.
    threads = torch.get_num_threads()

    def double_centred_ranks(columns: np.ndarray) -> np.ndarray:
        # Doubled ranks are integers, whose sums are exact: a constant column has sum of squares 0, not 1e-17.
        return np.asarray(2 * stats.rankdata(columns, axis=0) - (len(columns) + 1))

    with ThreadPoolExecutor(threads) as pool:
        ranks_x, ranks_y = (
            np.concatenate([*pool.map(double_centred_ranks, np.array_split(scores, threads, axis=1))], axis=1)
            for scores in (x, y)
        )
    squares = (ranks_x**2).sum(axis=0) * (ranks_y**2).sum(axis=0)
    np.divide((ranks_x * ranks_y).sum(axis=0), np.sqrt(squares), out=rho, where=squares > 0)
    return rho


def permuted_spearman(x: ArrayLike, y: ArrayLike, seed: int) -> tuple[float, float]:
    """Compute Spearman's rho and its two-sided p over permutations of one score.

    The permutations are those of `draw_orders`.

    Args:
        x: [N], the first score.
        y: [N], the second score.
        seed: random seed of the permutations.

    Returns:
        rho, and the share of permutations whose |rho| is at least as large; NaN where rho is undefined.

    >>> permuted_spearman([1, 2, 3, 4], [1, 2, 3, 4], seed=0)
    (1.0, 0.08333333333333333)
    """
    first, second = np.asarray(x, dtype=float)[:, None], np.asarray(y, dtype=float)
    rho = float(spearman_columns(first, second[:, None])[0])
    if math.isnan(rho):
        return rho, math.nan
    rhos = np.abs(spearman_columns(first, second[draw_orders(len(second), seed)].T))
    return rho, float((rhos >= abs(rho) - TOLERANCE).mean())


def weighted_spearman(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], weights: Int[np.ndarray, "r n"]
) -> Float[np.ndarray, " r"]:
    """Compute Spearman's rho of each resample r, in which unit i occurs `weights[r, i]` times.

    Ties have midranks. The result is the same as by repeating and ranking the units of each resample, but the
    units are sorted only once: the midrank of a run of ties follows from the weights of the units below it.

    Args:
        x: [N], first score; a unit with NaN is left out of every resample.
        y: [N], second score; a unit with NaN is left out of every resample.
        weights: [R, N], number of times that each unit occurs in each resample, not negative.

    Returns:
        [R], float64; NaN where a score is constant within a resample or the resample has fewer than 3 units.

    >>> weighted_spearman(np.arange(4.0), np.array([1.0, 0, 2, 3]), np.array([[1, 1, 1, 1], [0, 2, 1, 1]]))
    array([0.8, 1. ])
    """
    defined = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    # Units are sorted by x, so that only y needs another order.
    order = defined[np.argsort(x[defined], kind="stable")]
    order_y = np.argsort(y[order], kind="stable")
    ends_x, ends_y = _find_run_ends(x[order]), _find_run_ends(y[order][order_y])
    run_of_x = np.repeat(np.arange(len(ends_x)), np.diff(ends_x, prepend=0))
    run_of_y = np.empty_like(run_of_x)
    run_of_y[order_y] = np.repeat(np.arange(len(ends_y)), np.diff(ends_y, prepend=0))
    rho = np.full(len(weights), math.nan)
    if not len(order):
        return rho
    step = max(1, BLOCK_VALUES // len(order))
    for start in range(0, len(weights), step):
        # One row per unit, one column per resample of the block.
        block = weights[start : start + step, order].T.astype(float)
        centred_ranks_x, squares_x = _centred_midranks(block, ends_x)
        centred_ranks_y, squares_y = _centred_midranks(block[order_y], ends_y)
        ranks = centred_ranks_x[run_of_x], centred_ranks_y[run_of_y]
        products = np.einsum("nr,nr,nr->r", block, *ranks)
        # Sums of half-integers are exact, so a constant score has a sum of squares of 0, not 1e-17.
        squares = squares_x * squares_y
        has_rho = (block.sum(axis=0) >= MIN_UNITS) & (squares > 0)
        np.divide(products, np.sqrt(squares), out=rho[start : start + step], where=has_rho)
    return rho


def _find_run_ends(values: np.ndarray) -> np.ndarray:
    """Return the index after the last element of each run of ties in sorted values, [runs]."""
    return np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))


def _centred_midranks(weights: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the midranks of runs of ties minus the mean rank, [runs, R], and their sums of squares, [R].

    `weights`: weights of the sorted units, [N, R]; `ends`: ends of the runs (`_find_run_ends`).
    """
    weight_up_to_run = weights.cumsum(axis=0)[ends - 1]
    weight_below = np.zeros_like(weight_up_to_run)
    weight_below[1:] = weight_up_to_run[:-1]
    ranks = (weight_below + weight_up_to_run - weight_up_to_run[-1]) / 2
    return ranks, np.einsum("ur,ur,ur->r", weight_up_to_run - weight_below, ranks, ranks)


def auc(positive: ArrayLike, negative: ArrayLike) -> float:
    """Compute the area under the ROC curve: share of pairs in which the positive has the higher score.

    Ties count 1/2.

    Args:
        positive: [P], scores of the positive class; NaN are excluded.
        negative: [Q], scores of the negative class; NaN are excluded.

    Returns:
        Area from 0 to 1, 0.5 for uninformative scores; NaN where a class is empty.

    >>> auc([3, 2], [2, 1])
    0.875
    """
    both = np.asarray(positive, float), np.asarray(negative, float)
    positives, negatives = (scores[~np.isnan(scores)] for scores in both)
    n_positive, n_negative = len(positives), len(negatives)
    if not n_positive or not n_negative:
        return math.nan
    ranks = stats.rankdata(np.concatenate([positives, negatives]))[:n_positive]
    return float((ranks.sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))
