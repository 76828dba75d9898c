"""Compute permutation p-values, percentile intervals and corrections for multiple tests."""

import math
from itertools import permutations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy import stats

PERCENTILES = (2.5, 97.5)
# A draw below the observed statistic by at most this difference counts as equal to it (rounding errors).
TOLERANCE = 1e-12
# Standard deviation, or difference of z-scores, up to which values count as equal.
CONSTANT = 1e-9
# Up to this number, all permutations are computed; otherwise, this number of random ones.
MAX_PERMUTATIONS = 10_000


def permutation_p(null: np.ndarray, observed: float) -> float:
    """Compute the one-sided p of a permutation test (Phipson & Smyth 2010).

    Args:
        null: [R], statistic of each permutation; NaN counts as at least the observed statistic.
        observed: statistic of the data.

    Returns:
        (1 + number of permutations with at least the observed statistic) / (R + 1); NaN if `observed` is
        not finite.

    >>> permutation_p(np.array([0.1, 0.5, np.nan]), 0.5)
    0.75
    """
    if not math.isfinite(observed):
        return math.nan
    return (1 + int((~(null < observed - TOLERANCE)).sum())) / (len(null) + 1)


def joint_permutation_p(
    null: Float[np.ndarray, "r *c g"], observed: Float[np.ndarray, "*c g"]
) -> Float[np.ndarray, "*c g"]:
    """Compute the two-sided p of each group's statistic, joint over groups (Westfall & Young, single step).

    Statistics are standardised by mean and standard deviation over the R permutations and the observed ones,
    which makes the test exact.

    Args:
        null: [R, ..., G], statistics of G groups under each permutation.
        observed: [..., G], statistics of the data.

    Returns:
        [..., G]: share of the R + 1 in which the largest |z| over groups is at least that of the group. NaN
        where a group's statistic is undefined or never changes; such a group is not in the maximum.

    >>> joint_permutation_p(np.array([[0.1, 0.9], [0.5, 0.5], [0.4, 0.6]]), np.array([0.9, 0.1])).tolist()
    [0.25, 0.25]
    """
    statistics = np.concatenate([observed[None], null])
    centred = np.abs(statistics - statistics.mean(axis=0))
    deviation = statistics.std(axis=0)
    is_constant = ~(deviation > CONSTANT)
    z = centred / np.where(is_constant, math.nan, deviation)
    largest = np.where(np.isnan(z), -math.inf, z).max(axis=-1, keepdims=True)
    p = (largest >= z[0] - CONSTANT).mean(axis=0)
    return np.asarray(np.where(is_constant, math.nan, p))


def draw_orders(count: int, seed: int) -> Int[np.ndarray, "p n"]:
    """Draw permutations of units, the observed order first.

    Args:
        count: N, number of units.
        seed: random seed.

    Returns:
        [P, N], all permutations if there are at most 10,000 (7 units); otherwise the observed order and
        10,000 random ones.

    >>> draw_orders(3, seed=0).tolist()
    [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    """
    if math.factorial(count) <= MAX_PERMUTATIONS:
        return np.array([*permutations(range(count))], dtype=int)
    observed = np.arange(count)
    random = np.random.default_rng(seed).permuted(np.tile(observed, (MAX_PERMUTATIONS, 1)), axis=1)
    return np.concatenate([observed[None], random])


def interval(draws: ArrayLike) -> tuple[float, float]:
    """Compute the percentile interval of a bootstrap, nominally 95%.

    Args:
        draws: [R], statistic of each draw; NaN where it is undefined.

    Returns:
        The 2.5th and 97.5th percentiles of the finite draws; NaN, NaN if fewer than half of the draws are
        finite, as they would then not represent all draws.

    >>> interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    values = np.asarray(draws, dtype=float)
    finite = values[np.isfinite(values)]
    if not len(finite) or 2 * len(finite) < len(values):
        return math.nan, math.nan
    low, high = np.percentile(finite, PERCENTILES)
    return float(low), float(high)


def benjamini_hochberg(p: pd.Series) -> pd.Series:
    """Compute the q-value of each p (Benjamini and Hochberg 1995); NaN where p is NaN.

    >>> benjamini_hochberg(pd.Series([0.01, np.nan, 0.04])).tolist()
    [0.02, nan, 0.04]
    """
    defined = p.astype(float).dropna()
    # scipy rejects an empty array.
    q = stats.false_discovery_control(defined) if len(defined) else defined
    return pd.Series(q, defined.index, dtype=float).reindex(p.index)
