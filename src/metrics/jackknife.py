"""Compute jackknife variances over clusters, which may be crossed, and intervals and tests based on them.

Cameron, Gelbach & Miller 2011; Aronow et al. 2015. See docs/methods.md, section 6.2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

# Maximum number of subsamples. More clusters are distributed over this number of parts, and each subsample
# leaves out a part.
MAX_PARTS = 100
MIN_CLUSTERS = 5  # with fewer, a variance is undefined
# Correlations are clipped to ±MAX_RHO before Fisher's transformation.
MAX_RHO = 0.99999

# Masks of the remaining units of G subsamples [G, n] -> S statistics of each [G, S].
StatisticsFunction = Callable[[Bool[np.ndarray, "g n"]], Float[np.ndarray, "g s"]]
# S statistics of G subsamples [G, S] -> T combinations of each subsample's statistics [G, T].
CombinationFunction = Callable[[Float[np.ndarray, "g s"]], Float[np.ndarray, "g t"]]


@dataclass(frozen=True)
class Subsamples:
    """Subsamples of units, each without one part (a cluster, or several clusters if there are many).

    Attributes:
        ways: for each way of clustering, the sign of its variance in the sum (1 or -1), and the masks of the
            remaining units of its subsamples, [G, n].
        cells: masks [G, n] of the subsamples that leave out intersections of the ways' clusters; their
            variance is a lower bound.
        df: degrees of freedom: the smallest number of parts of any way with sign 1, minus 1.
        reason: why the variance is undefined; empty if it is defined.
    """

    ways: tuple[tuple[int, np.ndarray], ...]
    cells: np.ndarray
    df: int
    reason: str = ""


def leave_out_clusters(clusters: np.ndarray) -> Subsamples:
    """Build the subsamples that each leave out one part of a single way of clustering.

    `clusters` [n] names the cluster of each unit.

    >>> leave_out_clusters(np.array(list("abcde"))).ways[0][1].sum(axis=1).tolist()
    [4, 4, 4, 4, 4]
    """
    masks = _leave_out_each(assign_parts(clusters))
    return Subsamples(((1, masks),), masks, len(masks) - 1, _explain_too_few(clusters))


def leave_out_crossed(*ways: np.ndarray) -> Subsamples:
    """Build the subsamples of crossed ways of clustering: for two, of the variance V1 + V2 - V12.

    Each of `ways` [n] names the cluster of each unit. V1 and V2 are the variances over these clusters, and
    V12 is the variance over their intersections. Of more ways, intersections of an odd number of them are
    added and those of an even number subtracted (inclusion and exclusion).

    >>> subsamples = leave_out_crossed(*np.indices((2, 3, 5)).reshape(3, -1).astype(str))
    >>> [(sign, len(masks)) for sign, masks in subsamples.ways]
    [(1, 2), (1, 3), (1, 5), (-1, 6), (-1, 10), (-1, 15), (1, 30)]
    """
    signed_masks = [
        (1 if size % 2 else -1, _leave_out_each(assign_parts(reduce(join_names, chosen))))
        for size in range(1, len(ways) + 1)
        for chosen in combinations(ways, size)
    ]
    df = min(len(masks) for _, masks in signed_masks[: len(ways)]) - 1
    reason = next(filter(None, map(_explain_too_few, ways)), "")
    return Subsamples(tuple(signed_masks), signed_masks[-1][1], df, reason)


def leave_out_parents(first: np.ndarray, second: np.ndarray) -> Subsamples:
    """Build the subsamples for the variance V(parents) - V(pairs of different parents).

    Those of V(parents) each leave out parents with all their faces; those of V(pairs) leave out all morphs of
    a pair.

    Args:
        first: [n], name of one parent of each face.
        second: [n], name of the other parent; equal to `first` for a face that is not a morph.
    """
    names, indices = np.unique([first, second], return_inverse=True)
    count = min(len(names), MAX_PARTS)
    first_parts, second_parts = indices.reshape(2, -1) % MAX_PARTS
    by_parent = _leave_out_each(first_parts, count) & _leave_out_each(second_parts, count)
    ways = [(1, by_parent)]
    # The order of the two parents does not matter: both orders get the same name.
    is_swapped, is_morph = first > second, first != second
    pair_names = join_names(np.where(is_swapped, second, first), np.where(is_swapped, first, second))
    if is_morph.any():
        pair_parts = np.full(len(pair_names), -1)  # -1: not a morph, never left out
        pair_parts[is_morph] = assign_parts(pair_names[is_morph])
        ways.append((-1, _leave_out_each(pair_parts)))
    cells = _leave_out_each(assign_parts(pair_names))
    reason = "" if len(names) >= MIN_CLUSTERS else f"fewer than {MIN_CLUSTERS} parents"
    return Subsamples(tuple(ways), cells, len(by_parent) - 1, reason)


def assign_parts(clusters: np.ndarray) -> np.ndarray:
    """Return the index of each unit's part, [n].

    Clusters, in alphabetical order, are distributed in turn over at most 100 parts.

    >>> assign_parts(np.array(["b", "a", "b"]))
    array([1, 0, 1])
    """
    _, indices = np.unique(clusters, return_inverse=True)
    return np.asarray(indices % MAX_PARTS)


def join_names(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Join the two names of each pair into one, [n]."""
    return np.array([f"{a}\0{b}" for a, b in zip(first, second, strict=True)])


def _leave_out_each(parts: np.ndarray, count: int | None = None) -> np.ndarray:
    """Return masks [G, n]: row g is true for the units outside part g.

    `parts` [n] is the index of each unit's part; `count` is G, the number of parts (None: as many as occur).
    """
    count = int(parts.max(initial=-1)) + 1 if count is None else count
    return np.asarray(parts[None] != np.arange(count)[:, None])


def _explain_too_few(clusters: np.ndarray) -> str:
    return "" if len(np.unique(clusters)) >= MIN_CLUSTERS else f"fewer than {MIN_CLUSTERS} clusters"


class Replicates(Subsamples):
    """Statistics of each subsample: like `Subsamples`, but `ways` and `cells` hold statistics.

    Their arrays are [G, S] instead of masks [G, n].
    """

    def variance(self, combine: CombinationFunction = lambda statistics: statistics) -> np.ndarray:
        """Compute the jackknife variance of each combination of statistics.

        Returns:
            Variances [T], at least those over the cells; NaN where a combination is undefined in a subsample,
            or everywhere if there is a `reason`.
        """
        total = sum(sign * _jackknife_variance(combine(statistics)) for sign, statistics in self.ways)
        variances = np.maximum(total, _jackknife_variance(combine(self.cells)))
        return np.full_like(variances, math.nan) if self.reason else variances

    def covariance(self) -> np.ndarray:
        """Compute the jackknife covariance of all statistics, [S, S]; NaN as in `variance`."""
        covariance = sum(sign * _jackknife_covariance(statistics) for sign, statistics in self.ways)
        return np.full_like(covariance, math.nan) if self.reason else np.asarray(covariance)


def replicate(subsamples: Subsamples, compute_statistics: StatisticsFunction) -> Replicates:
    """Compute the statistics of each subsample."""
    ways = tuple((sign, compute_statistics(masks)) for sign, masks in subsamples.ways)
    return Replicates(ways, compute_statistics(subsamples.cells), subsamples.df, subsamples.reason)


def _jackknife_covariance(statistics: np.ndarray) -> np.ndarray:
    count = len(statistics)
    centred = statistics - statistics.mean(axis=0)
    return np.asarray((count - 1) / count * centred.T @ centred)


def _jackknife_variance(statistics: np.ndarray) -> np.ndarray:
    count = len(statistics)
    return np.asarray((count - 1) / count * ((statistics - statistics.mean(axis=0)) ** 2).sum(axis=0))


def compute_t_interval(estimate: float, variance: float, df: int) -> tuple[float, float]:
    """Compute the 95% interval of an estimate with Student's t.

    Both ends are NaN if estimate or variance is undefined.

    >>> [round(end, 3) for end in compute_t_interval(1.0, 4.0, 9)]
    [-3.524, 5.524]
    """
    if not (math.isfinite(estimate) and math.isfinite(variance)):
        return math.nan, math.nan
    half_width = float(special.stdtrit(df, 0.975)) * math.sqrt(variance)
    return estimate - half_width, estimate + half_width


def t_test(estimate: float, variance: float, df: int) -> float:
    """Test an estimate against 0 with Student's t; return the two-sided p.

    p is NaN if estimate or variance is undefined, and 1 for an estimate of 0, even if its variance is 0.

    >>> round(t_test(2.262, 1.0, 9), 3)
    0.05
    """
    if not (math.isfinite(estimate) and math.isfinite(variance)):
        return math.nan
    if estimate == 0:
        return 1.0
    return float(2 * special.stdtr(df, -abs(estimate) / math.sqrt(variance))) if variance > 0 else 0.0


def fisher_transform(rho: np.ndarray) -> np.ndarray:
    """Apply Fisher's transformation, atanh, to correlations clipped to ±0.99999."""
    return np.asarray(np.arctanh(np.clip(rho, -MAX_RHO, MAX_RHO)))


def compute_rho_interval(rho: float, variance: float, df: int) -> tuple[float, float]:
    """Compute the 95% interval of a correlation from the variance of its Fisher transformation."""
    low, high = compute_t_interval(float(fisher_transform(np.array(rho))), variance, df)
    return math.tanh(low), math.tanh(high)


@dataclass(frozen=True)
class Ratio:
    """Ratio of two estimates, with Fieller's interval; NaN if the denominator is too close to 0."""

    value: float
    low: float
    high: float
    is_equivalent: bool | None  # whether the ratio is equivalent to 1; None if the ratio is undefined


def compare_by_ratio(
    numerator: float, denominator: float, covariance: Float[np.ndarray, "2 2"], df: int, margin: float
) -> Ratio:
    """Compare two estimates by their ratio (Fieller 1954; Schuirmann 1987).

    Args:
        numerator: first estimate.
        denominator: second estimate.
        covariance: covariance of both, in this order.
        df: degrees of freedom.
        margin: largest difference between the ratio and 1 that counts as equivalent, such as 0.1.

    Returns:
        The ratio and its interval: all r with |T(r)| <= t(.975), where T(r) is (numerator - r * denominator)
        / (standard error of this difference). The ratio is equivalent to 1 if two one-sided tests at 5% show
        1 - margin < r < 1 + margin. It is undefined if |denominator| is below 3 of its standard errors, as
        Fieller's interval is then unbounded or nearly so.
    """
    (numerator_variance, cross_covariance), (_, denominator_variance) = covariance.tolist()
    if (
        not np.isfinite(covariance).all()
        or not denominator**2 >= 9 * denominator_variance
        or denominator == 0
    ):
        return Ratio(math.nan, math.nan, math.nan, None)
    if denominator < 0:
        numerator, denominator = -numerator, -denominator

    def t(r: float) -> float:
        variance = max(numerator_variance + r * r * denominator_variance - 2 * r * cross_covariance, 0.0)
        difference = numerator - r * denominator
        return difference / math.sqrt(variance) if variance else math.copysign(math.inf, difference)

    t_975, t_95 = (float(special.stdtrit(df, probability)) for probability in (0.975, 0.95))
    # T(r)² = t_975² is the quadratic a r² - 2 b r + c = 0.
    a = denominator**2 - t_975**2 * denominator_variance
    b = numerator * denominator - t_975**2 * cross_covariance
    c = numerator**2 - t_975**2 * numerator_variance
    root = math.sqrt(max(b * b - a * c, 0.0))
    low, high = ((b - root) / a, (b + root) / a) if a > 0 else (math.nan, math.nan)
    is_equivalent = t(1 - margin) >= t_95 and t(1 + margin) <= -t_95
    return Ratio(numerator / denominator, low, high, is_equivalent)
