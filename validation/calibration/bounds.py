"""Bound the shares that simulations measure, given the number of their worlds, and seed the worlds."""

import zlib

import numpy as np
from scipy import stats

ALPHA = 0.05
# Probability that a share is inside its bounds if the true share is 5%, or at a limit that few worlds widen.
# With 1,000 worlds, the bounds of 5% are 2.9% and 7.4%.
CERTAINTY = 0.999


def of_false_positive_rate(worlds: int) -> tuple[float, float]:
    """Return the bounds of the share of null worlds with p at most 5%.

    >>> of_false_positive_rate(1000)
    (0.029, 0.074)
    """
    low, high = stats.binom.interval(CERTAINTY, worlds, ALPHA)
    return float(low / worlds), float(high / worlds)


def limits(low: float, high: float, worlds: int, few: bool) -> tuple[float, float]:
    """Return the limits of a share; wider ones for a run with few worlds."""
    if not few:
        return low, high
    tail = (1 - CERTAINTY) / 2
    lowest, highest = stats.binom.ppf(tail, worlds, low), stats.binom.isf(tail, worlds, high)
    return float(lowest / worlds), float(highest / worlds)


def generator(kind: object, number: int) -> np.random.Generator:
    """Return the random generator of world `number` of a kind, by its description.

    Worlds of different kinds are independent.
    """
    return np.random.default_rng([zlib.crc32(str(kind).encode()), number])
