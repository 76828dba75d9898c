"""Compute permutation p-values, percentile intervals and corrections for multiple tests."""

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

PERCENTILES = (2.5, 97.5)
# A draw below the observed statistic by at most this difference counts as equal to it (rounding errors).
TOLERANCE = 1e-12


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
