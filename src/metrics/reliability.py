"""Estimate reliabilities from halves of a test, and correct a correlation for them (Spearman 1904, 1910)."""

import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


def spearman_brown(correlation: ArrayLike) -> Float[np.ndarray, "*n"]:
    """Compute the reliability of a test from the correlation of its halves, 2r / (1 + r).

    Args:
        correlation: correlations r of two halves; the reliability is undefined for r = -1.

    Returns:
        Reliability of the test of both halves, in the shape of the correlations; NaN where undefined.

    >>> spearman_brown([0.0, 0.5, 1.0]).round(3).tolist()
    [0.0, 0.667, 1.0]
    """
    r = np.asarray(correlation, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(r > -1, 2 * r / (1 + r), math.nan))


def noise_ceiling(first: ArrayLike, second: ArrayLike) -> Float[np.ndarray, "*n"]:
    """Compute the largest correlation that two scores can reach, given their reliabilities.

    Args:
        first: reliabilities of the first score: its correlations with a repetition.
        second: reliabilities of the second score.

    Returns:
        Square root of the product of both; NaN where a reliability is not positive.

    >>> noise_ceiling([0.5, 0.5], [0.72, -0.1]).round(3).tolist()
    [0.6, nan]
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where((x > 0) & (y > 0), np.sqrt(x * y), math.nan))


def disattenuate(correlation: ArrayLike, first: ArrayLike, second: ArrayLike) -> Float[np.ndarray, "*n"]:
    """Estimate the correlation of two scores without noise: correlation / noise ceiling.

    Args:
        correlation: correlations of scores whose errors are independent.
        first: reliabilities of the first score.
        second: reliabilities of the second score.

    Returns:
        Estimates of the correlation, which may be beyond ±1; NaN where a reliability is not positive.

    >>> disattenuate([0.3], [0.5], [0.72]).round(3).tolist()
    [0.5]
    """
    return np.asarray(np.asarray(correlation, dtype=float) / noise_ceiling(first, second))
