"""Agreement of what is measured in the representation with what is retrieved."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
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


def spearman_columns(x: Float[np.ndarray, "n r"], y: Float[np.ndarray, "n s"]) -> Float[np.ndarray, " t"]:
    """Spearman's rho of column r of x with column r of y, with midranks, for many columns at once.

    Args:
        x, y: [N, R], or [N, 1] where one side is the same for each column of the other.

    Returns:
        [R], float64; NaN where a column is constant or holds a NaN, or where there are fewer than 3 rows.

    >>> spearman_columns(np.array([[1.0, 1], [2, 2], [3, 9]]), np.array([[1.0, 5], [2, 4], [3, 3]]))
    array([ 1., -1.])
    """
    found = np.full(max(x.shape[1], y.shape[1]), math.nan)
    if len(x) < 3:
        return found
    # scipy ranks on one core, and lets go of the interpreter where it sorts.
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        first, second = (
            np.concatenate([*pool.map(_centred_ranks, np.array_split(side, threads, axis=1))], axis=1)
            for side in (x, y)
        )
    squares = (first**2).sum(axis=0) * (second**2).sum(axis=0)
    np.divide((first * second).sum(axis=0), np.sqrt(squares), out=found, where=squares > 0)
    return found


def _centred_ranks(columns: np.ndarray) -> np.ndarray:
    """Twice the midrank less its mean, within each column."""
    # They are integers, whose sums are exact: a constant column has squares of 0, not of 1e-17.
    doubled: np.ndarray = 2 * stats.rankdata(columns, axis=0) - (len(columns) + 1)
    return doubled


def auc(positive: ArrayLike, negative: ArrayLike) -> float:
    """Share of pairs in which the positive scores above the negative, ties 1/2: area under the ROC curve.

    Args:
        positive, negative: scores of both kinds; NaN are left out.

    Returns:
        From 0 to 1, 0.5 where the scores tell nothing; NaN where a side is empty.

    >>> auc([3, 2], [2, 1])
    0.875
    """
    above, below = (
        side[~np.isnan(side)] for side in (np.asarray(positive, float), np.asarray(negative, float))
    )
    if not len(above) or not len(below):
        return math.nan
    ranks = stats.rankdata(np.concatenate([above, below]))[: len(above)]
    return float((ranks.sum() - len(above) * (len(above) + 1) / 2) / (len(above) * len(below)))
