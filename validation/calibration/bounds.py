"""Bound the shares that simulations measure, given the number of their worlds."""

import numpy as np
from scipy import stats

ALPHA = 0.05
# Probability that a share is inside its bounds if the true share is 5%, or at a limit that few worlds widen.
# With 1,000 worlds, the bounds of 5% are 2.9% and 7.4%.
CERTAINTY = 0.999


def of_level(worlds: int) -> tuple[float, float]:
    """Return the bounds of the share of null worlds with p at most 5%.

    >>> of_level(1000)
    (0.029, 0.074)
    """
    low, high = stats.binom.interval(CERTAINTY, worlds, ALPHA)
    return float(low / worlds), float(high / worlds)


def widen(low: float, high: float, worlds: int) -> tuple[float, float]:
    """Return wider limits of a share for a run with few worlds."""
    tail = (1 - CERTAINTY) / 2
    return (
        float(stats.binom.ppf(tail, worlds, low) / worlds),
        float(stats.binom.isf(tail, worlds, high) / worlds),
    )


def is_null_mean(values: np.ndarray) -> bool:
    """Return whether the mean of values differs from 0 by at most 3 standard errors."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return bool(abs(values.mean()) <= 3 * error)
