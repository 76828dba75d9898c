"""Implicit bias: whose images are more similar to prompts (Capitani et al. 2024)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# Cosines are rounded to 12 decimals: what differs by less, differs by rounding.
TOLERANCE = 1e-12


def delta_gap(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"], signed: bool = False) -> float:
    """Mean over prompts of the gap between the groups' mean cosines, absolute by default.

    Args:
        to_a, to_b: cosines of the images of each group with the prompts.
        signed: positive where A is nearer.

    >>> a, b = np.array([[0.5, 0.25]]), np.array([[0.25, 0.5]])
    >>> delta_gap(a, b), delta_gap(a, b, signed=True)
    (0.25, 0.0)
    """
    gaps = to_a.mean(axis=0) - to_b.mean(axis=0)
    return float(gaps.mean() if signed else np.abs(gaps).mean())


def partition_gaps(
    cosines: Float[np.ndarray, "n x"], members: Bool[np.ndarray, "r n"]
) -> Float[np.ndarray, " r"]:
    """Absolute `delta_gap` of many partitions of the same images into A and B.

    Args:
        cosines: of all images with the prompts.
        members: which images are A in each partition; the others are B.
    """
    a, inside = members.sum(axis=1)[:, None], members.astype(float) @ cosines
    gaps = inside / a - (cosines.sum(axis=0) - inside) / (members.shape[1] - a)
    found: np.ndarray = np.abs(gaps).mean(axis=1)
    return found


def cohens_d(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"]) -> float:
    """Cohen's d of the images' mean cosines over all prompts: pooled SD, ddof 1.

    Returns:
        Positive where A is nearer; NaN where neither group varies or there are fewer than 3 images.
    """
    a, b = to_a.mean(axis=1), to_b.mean(axis=1)
    degrees = len(a) + len(b) - 2
    if degrees < 1:
        return math.nan
    squares = sum((len(side) - 1) * _variance(side) for side in (a, b) if len(side) > 1)
    return _ratio(float(a.mean() - b.mean()), squares / degrees)


def z_score(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"]) -> float:
    """The absolute gap in standard deviations (Capitani et al. 2024, eq. 4).

    Z = delta gap / sqrt((var_A + var_B) / 2), variances over all (image, prompt) cosines of a group, ddof 1.

    Returns:
        Not negative; NaN where neither group varies.
    """
    return _ratio(delta_gap(to_a, to_b), (_variance(to_a) + _variance(to_b)) / 2)


def upper_tail(z: float) -> float:
    """1 - Phi(Z) (Capitani et al. 2024, eq. 5), in (0, 1/2]: falls with bias; no p-value.

    >>> upper_tail(0.0)
    0.5
    """
    return float(stats.norm.sf(z))


def cles_mcgraw_wong(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"]) -> float:
    """Phi((mu_A - mu_B) / sqrt(var_A + var_B)): CLES if cosines were normal (McGraw & Wong 1992).

    Returns:
        In [0, 1]; NaN where neither group varies.
    """
    difference = float(to_a.mean() - to_b.mean())
    return float(stats.norm.cdf(_ratio(difference, _variance(to_a) + _variance(to_b))))


def _variance(values: np.ndarray) -> float:
    if values.size < 2:
        return math.nan
    return 0.0 if np.ptp(values) <= TOLERANCE else float(values.var(ddof=1))


def _ratio(difference: float, variance: float) -> float:
    return difference / math.sqrt(variance) if variance > 0 else math.nan


def iat_scores(
    positive: Float[np.ndarray, "n j"], negative: Float[np.ndarray, "n j"]
) -> Float[np.ndarray, "n j"]:
    """+1 where an image is nearer to a pair's positive prompt than to its negative one, else -1.

    The bars printed around the sum over images would make it a constant: left out.

    Args:
        positive, negative: cosines of the images with both prompts of each pair.
    """
    return np.where(positive > negative, 1.0, -1.0)


def iat_totals(scores: Float[np.ndarray, "n j"], weights: Int[np.ndarray, "r n"], size: int) -> np.ndarray:
    """[R, J] sums of the scores of weighted images, as of `size` images in all; NaN where all weigh 0.

    Args:
        scores: see `iat_scores`.
        weights: of each image; of a partition, whether it is a member.
        size: images of a group; a morph's weight is a product, so they need not sum to it.
    """
    weighed = weights.sum(axis=1, dtype=float)[:, None]
    found = np.full((len(weights), scores.shape[1]), math.nan)
    # Whole numbers stay whole: multiplied first.
    np.divide(weights.astype(float) @ scores * size, weighed, out=found, where=weighed > 0)
    return found


def iat(
    totals_a: Float[np.ndarray, "*r j"], totals_b: Float[np.ndarray, "*r j"], reading: str = "total"
) -> Float[np.ndarray, "*r"]:
    """Implicit association of two groups with pairs of prompts (Capitani et al. 2024).

    Args:
        totals_a, totals_b: sums of each group's scores, see `iat_totals`.
        reading: total: |mu_A - mu_B|, mu summed over pairs; by_pair: sum over pairs of |mu_Aj - mu_Bj|.

    Returns:
        From 0 to 2 n J for groups of n images and J pairs.

    >>> iat(np.array([3.0, -1.0]), np.array([-1.0, 1.0])), iat(np.ones(2), -np.ones(2), "by_pair")
    (np.float64(2.0), np.float64(4.0))
    """
    differences = totals_a - totals_b
    if reading == "by_pair":
        differences = np.abs(differences)
    found: np.ndarray = np.abs(differences.sum(axis=-1))
    return found
