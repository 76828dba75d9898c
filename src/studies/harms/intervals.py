"""Compute intervals of shares, gaps, differences and ratios by person (docs/methods.md, section 7.3)."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from src.metrics.jackknife import Replicates, compute_t_interval
from src.studies.shared.cluster_jackknife import build_subsamples, list_cluster_columns

LEVEL = 0.95
UPPER = 1 - (1 - LEVEL) / 2


@dataclass(frozen=True)
class Units:
    """Units of the faces of a group: people, parents of morphs, or sets of matched pictures.

    Attributes:
        n: number of faces.
        count: number of units.
        df: degrees of freedom of the jackknife.
        reason: why there is no interval; empty if there is one.
    """

    n: int
    count: int
    df: int
    reason: str


def count_units(clusters: pd.DataFrame, members: np.ndarray) -> Units:
    """Count the units of the faces in a mask [N], by the columns of `clusters`."""
    chosen = clusters[members]
    subsamples = build_subsamples(chosen)
    names = chosen[list_cluster_columns(chosen)].to_numpy(dtype=str)
    return Units(len(chosen), len(np.unique(names)), subsamples.df, subsamples.reason)


def compute_share_interval(share: float, variance: float, units: Units) -> tuple[float, float]:
    """Compute the interval of a share of faces of which several may be of one unit (Korn & Graubard 1998).

    It is the exact binomial interval for n* faces, the effective number of independent ones: share · (1 -
    share) / variance, times (t of n - 1 / t of df)², at most n. If all faces agree, n* is the number of
    units.

    >>> [round(end, 3) for end in compute_share_interval(0.0, 0.0, Units(100, 50, 49, ""))]
    [0.0, 0.071]
    """
    if units.reason or not (math.isfinite(share) and math.isfinite(variance)):
        return math.nan, math.nan
    effective = float(units.count)
    if 0 < share < 1:
        factor = (special.stdtrit(units.n - 1, UPPER) / special.stdtrit(units.df, UPPER)) ** 2
        independent = share * (1 - share) / variance * factor if variance else units.n
        effective = float(min(units.n, independent))
    hits = share * effective
    low = special.betaincinv(hits, effective - hits + 1, 1 - UPPER) if hits else 0.0
    high = special.betaincinv(hits + 1, effective - hits, UPPER) if hits < effective else 1.0
    return float(low), float(high)


def compute_gap_interval(gap: float, variance: float, inside: Units, outside: Units) -> tuple[float, float]:
    """Compute the interval of a share minus that of all other faces, by Student's t; cut at -1 and 1."""
    if inside.reason or outside.reason:
        return math.nan, math.nan
    low, high = compute_t_interval(gap, variance, min(inside.df, outside.df))
    return max(low, -1.0) if math.isfinite(low) else low, min(high, 1.0) if math.isfinite(high) else high


def compare_extremes(
    shares: np.ndarray, replicates: Replicates, chosen: np.ndarray, df: int
) -> dict[str, float]:
    """Compare the largest and the smallest share: their difference and ratio, with intervals.

    The intervals are Bonferroni's over all pairs of groups, as the data choose the pair.

    Args:
        shares: [G], share of each group.
        replicates: their jackknife replicates, [P, G] and further columns.
        chosen: positions of the groups to compare.
        df: degrees of freedom.

    Returns:
        `difference` (largest minus smallest) and `ratio` (smallest by largest), each with `_low` and `_high`;
        NaN where undefined: no interval of the ratio if a share is 0 in a subsample.
    """
    high, low = chosen[shares[chosen].argmax()], chosen[shares[chosen].argmin()]
    pairs = len(chosen) * (len(chosen) - 1) / 2
    t = float(special.stdtrit(df, 1 - (1 - LEVEL) / 2 / pairs))

    def log(values: np.ndarray) -> np.ndarray:
        return np.log(np.where(values > 0, values, math.nan))

    difference = float(shares[high] - shares[low])
    error = t * math.sqrt(replicates.variance(lambda s: (s[:, high] - s[:, low])[:, None])[0])
    ratio = float(shares[low] / shares[high]) if shares[high] > 0 else math.nan
    log_variance = float(replicates.variance(lambda s: (log(s[:, low]) - log(s[:, high]))[:, None])[0])
    # No variance: every subsample agrees, and a width of 0 would claim too much.
    error = error or math.nan
    factor = math.exp(t * math.sqrt(log_variance)) if log_variance > 0 else math.nan
    return {
        "difference": difference,
        "difference_low": max(difference - error, -1.0) if math.isfinite(error) else math.nan,
        "difference_high": min(difference + error, 1.0) if math.isfinite(error) else math.nan,
        "ratio": ratio,
        "ratio_low": ratio / factor,
        "ratio_high": ratio * factor,
    }
