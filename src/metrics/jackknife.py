"""Compute jackknife variances over clusters, which may cross, and intervals and tests from them.

Cameron, Gelbach & Miller 2011; Aronow et al. 2015. See docs/methods.md, section 6.2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

# More clusters than this are dealt into as many parts, which are left out instead.
MAX_PARTS = 100
MIN_CLUSTERS = 5
# Correlations are cut here before Fisher's transformation.
MAX_RHO = 0.99999

# Statistics of subsamples: units that remain [G, n] -> [G, S].
Statistics = Callable[[Bool[np.ndarray, "g n"]], Float[np.ndarray, "g s"]]
Combination = Callable[[Float[np.ndarray, "g s"]], Float[np.ndarray, "g t"]]


@dataclass(frozen=True)
class Deletions:
    """Subsamples of units, each without one part.

    Attributes:
        ways: for each way of clustering, whether its variance is added (1) or subtracted (-1), and the units
            that remain, [G, n].
        cells: the same for the finest clusters, whose variance is a lower bound.
        df: degrees of freedom: the smallest number of parts of any way, less 1.
        reason: reason why there is no variance; empty where there is one.
    """

    ways: tuple[tuple[int, np.ndarray], ...]
    cells: np.ndarray
    df: int
    reason: str = ""


def one_way(clusters: np.ndarray) -> Deletions:
    """Leave out the parts of one way of clustering, given by the name [n] of each unit's cluster.

    >>> one_way(np.array(list("abcde"))).ways[0][1].sum(axis=1).tolist()
    [4, 4, 4, 4, 4]
    """
    remaining = _remaining(parts(clusters))
    return Deletions(((1, remaining),), remaining, len(remaining) - 1, _too_few(clusters))


def crossed(first: np.ndarray, second: np.ndarray) -> Deletions:
    """Leave out the parts of two ways of clustering that cross, given by names [n]: V1 + V2 - V12."""
    ways = [_remaining(parts(names)) for names in (first, second)]
    cells = _remaining(parts(pair_names(first, second)))
    reason = _too_few(first) or _too_few(second)
    return Deletions((*((1, way) for way in ways), (-1, cells)), cells, min(map(len, ways)) - 1, reason)


def parents(first: np.ndarray, second: np.ndarray) -> Deletions:
    """Leave out parents with all their faces: V over parents less V over pairs of two different parents.

    Args:
        first: [n] name of one parent of each face.
        second: [n] name of the other; equal to `first` for a face that is no morph.
    """
    names, numbers = np.unique([first, second], return_inverse=True)
    number_of_parts = min(len(names), MAX_PARTS)
    fold_a, fold_b = numbers.reshape(2, -1) % MAX_PARTS
    by_parent = _remaining(fold_a, number_of_parts) & _remaining(fold_b, number_of_parts)
    ways, is_swapped, is_morph = [(1, by_parent)], first > second, first != second
    faces = pair_names(np.where(is_swapped, second, first), np.where(is_swapped, first, second))
    if is_morph.any():
        pair = np.full(len(faces), -1)
        pair[is_morph] = parts(faces[is_morph])
        ways.append((-1, _remaining(pair)))
    reason = "" if len(names) >= MIN_CLUSTERS else f"fewer than {MIN_CLUSTERS} parents"
    return Deletions(tuple(ways), _remaining(parts(faces)), len(by_parent) - 1, reason)


def parts(clusters: np.ndarray) -> np.ndarray:
    """Return the part [n] of each unit's cluster; clusters are dealt in order of their names.

    >>> parts(np.array(["b", "a", "b"]))
    array([1, 0, 1])
    """
    _, numbers = np.unique(clusters, return_inverse=True)
    return np.asarray(numbers % MAX_PARTS)


def pair_names(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return a name [n] of each pair of names."""
    return np.array([f"{a}\0{b}" for a, b in zip(first, second, strict=True)])


def _remaining(fold: np.ndarray, count: int | None = None) -> np.ndarray:
    count = int(fold.max(initial=-1)) + 1 if count is None else count
    return np.asarray(fold[None] != np.arange(count)[:, None])


def _too_few(clusters: np.ndarray) -> str:
    return "" if len(np.unique(clusters)) >= MIN_CLUSTERS else f"fewer than {MIN_CLUSTERS} clusters"


class Replicates(Deletions):
    """Statistics of the subsamples of `Deletions`: by way [G, S], and of the cells."""

    def variance(self, combine: Combination = lambda statistics: statistics) -> np.ndarray:
        """Compute the jackknife variance of each combination of statistics, [T].

        Returns:
            Variances, never below that over the cells; NaN where a combination is undefined in a replicate,
            or with fewer than 5 clusters in a way.
        """
        total = sum(sign * _spread(combine(statistics)) for sign, statistics in self.ways)
        result = np.maximum(total, _spread(combine(self.cells)))
        return np.full_like(result, math.nan) if self.reason else result

    def covariance(self) -> np.ndarray:
        """Compute the jackknife covariance of all statistics, [S, S]; NaN as in `variance`."""
        result = sum(sign * _scatter(statistics) for sign, statistics in self.ways)
        return np.full_like(result, math.nan) if self.reason else np.asarray(result)


def replicate(deletions: Deletions, statistics: Statistics) -> Replicates:
    """Compute statistics of each subsample."""
    ways = tuple((sign, statistics(remaining)) for sign, remaining in deletions.ways)
    return Replicates(ways, statistics(deletions.cells), deletions.df, deletions.reason)


def _scatter(statistics: np.ndarray) -> np.ndarray:
    count = len(statistics)
    centred = statistics - statistics.mean(axis=0)
    return np.asarray((count - 1) / count * centred.T @ centred)


def _spread(statistics: np.ndarray) -> np.ndarray:
    count = len(statistics)
    return np.asarray((count - 1) / count * ((statistics - statistics.mean(axis=0)) ** 2).sum(axis=0))


def t_interval(estimate: float, variance: float, df: int) -> tuple[float, float]:
    """Compute the 95% interval of an estimate with Student's t; NaN, NaN without a variance.

    >>> [round(end, 3) for end in t_interval(1.0, 4.0, 9)]
    [-3.524, 5.524]
    """
    if not (math.isfinite(estimate) and math.isfinite(variance)):
        return math.nan, math.nan
    half = float(special.stdtrit(df, 0.975)) * math.sqrt(variance)
    return estimate - half, estimate + half


def t_test(estimate: float, variance: float, df: int) -> float:
    """Compute the two-sided p of an estimate of 0 with Student's t; NaN without a variance.

    An estimate of 0 has p = 1, also with a variance of 0.

    >>> round(t_test(2.262, 1.0, 9), 3)
    0.05
    """
    if not (math.isfinite(estimate) and math.isfinite(variance)):
        return math.nan
    if estimate == 0:
        return 1.0
    return float(2 * special.stdtr(df, -abs(estimate) / math.sqrt(variance))) if variance > 0 else 0.0


def fisher(rho: np.ndarray) -> np.ndarray:
    """Apply Fisher's transformation, atanh, to correlations cut at ±0.99999."""
    return np.asarray(np.arctanh(np.clip(rho, -MAX_RHO, MAX_RHO)))


def rho_interval(rho: float, variance: float, df: int) -> tuple[float, float]:
    """Compute the 95% interval of a correlation from the variance of its Fisher transformation."""
    low, high = t_interval(float(fisher(np.array(rho))), variance, df)
    return math.tanh(low), math.tanh(high)


@dataclass(frozen=True)
class Ratio:
    """Ratio of a later to a reference value, with Fieller's interval; NaN where the reference is near 0."""

    value: float
    low: float
    high: float
    is_equivalent: bool | None


def ratio(
    later: float, reference: float, covariance: Float[np.ndarray, "2 2"], df: int, margin: float
) -> Ratio:
    """Compare two estimates by their ratio (Fieller 1954; Schuirmann 1987).

    Args:
        later: estimate in the numerator.
        reference: estimate in the denominator.
        covariance: covariance of both, in this order.
        df: degrees of freedom.
        margin: largest relative difference that counts as none, such as 0.1.

    Returns:
        The ratio r and its interval, all r with |T(r)| at most t(.975), T(r) = (later - r reference)/SE; two
        one-sided tests at 5% show equivalence, 1 - margin < r < 1 + margin. All undefined where the
        reference is below 3 of its standard errors, since Fieller's interval is then unbounded or nearly so.
    """
    (v_later, v_both), (_, v_reference) = covariance.tolist()
    if not np.isfinite(covariance).all() or not reference**2 >= 9 * v_reference or reference == 0:
        return Ratio(math.nan, math.nan, math.nan, None)
    if reference < 0:
        later, reference = -later, -reference

    def t(r: float) -> float:
        error = max(v_later + r * r * v_reference - 2 * r * v_both, 0.0)
        difference = later - r * reference
        return difference / math.sqrt(error) if error else math.copysign(math.inf, difference)

    limit, one_sided = (float(special.stdtrit(df, level)) for level in (0.975, 0.95))
    # (later - r reference)² = limit² (v_later + r² v_reference - 2 r v_both), a quadratic equation in r.
    a = reference**2 - limit**2 * v_reference
    b = later * reference - limit**2 * v_both
    root = math.sqrt(max(b * b - a * (later**2 - limit**2 * v_later), 0.0))
    low, high = ((b - root) / a, (b + root) / a) if a > 0 else (math.nan, math.nan)
    is_equivalent = t(1 - margin) >= one_sided and t(1 + margin) <= -one_sided
    return Ratio(later / reference, low, high, is_equivalent)
