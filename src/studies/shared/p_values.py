"""P-values of draws under a null."""

from __future__ import annotations

import math

import numpy as np

# A draw that reaches what is observed but for rounding, reaches it.
TOLERANCE = 1e-12


def reached(rhos: np.ndarray, observed: float) -> float:
    """(1 + number of draws that reach what is observed, or are undefined) / (R + 1).

    >>> reached(np.array([0.1, 0.5, np.nan]), 0.5)
    0.75
    """
    if not math.isfinite(observed):
        return math.nan
    return (1 + int((~(rhos < observed - TOLERANCE)).sum())) / (len(rhos) + 1)
