"""Agreement of what is measured in the representation with what is retrieved."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho.

    Attributes:
        rho: from -1 to 1; NaN where `reason` says why.
        p: asymptotic two-sided p of rho = 0, units taken as independent. No verdict hangs on it.
        n: units that entered.
        n_excluded: units left out because a score is undefined.
        reason: why there is no rho; empty where there is one.
    """

    rho: float
    p: float
    n: int
    n_excluded: int
    reason: str = ""


def spearman(intrinsic: ArrayLike, extrinsic: ArrayLike) -> Correlation:
    """Spearman's rank correlation over the units of which both scores are defined (scipy).

    Args:
        intrinsic, extrinsic: [N]; NaN where undefined.

    >>> spearman([1, 2, 3, float("nan")], [2, 4, 9, 1]).rho
    1.0
    """
    x, y = np.asarray(intrinsic, dtype=float), np.asarray(extrinsic, dtype=float)
    defined = ~(np.isnan(x) | np.isnan(y))
    n, excluded = int(defined.sum()), int((~defined).sum())
    x, y = x[defined], y[defined]
    reason = ""
    if n < 3:
        reason = f"{n} units: at least 3 are needed"
    elif np.ptp(x) == 0:
        reason = "every unit has the same intrinsic score"
    elif np.ptp(y) == 0:
        reason = "every unit has the same outcome"
    if reason:
        return Correlation(math.nan, math.nan, n, excluded, reason)
    rho, p = stats.spearmanr(x, y)
    return Correlation(float(rho), float(p), n, excluded)
