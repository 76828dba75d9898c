"""Measure implicit bias: which group's images are more similar to prompts (Capitani et al. 2024)."""

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# Range of values up to which they count as equal, as cosines are rounded to 12 decimals.
TOLERANCE = 1e-12
# Number of pairs of images that are compared at once in a bootstrap, with a few arrays of 32 MB each.
BLOCK = 2**22


def delta_gap(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"], signed: bool = False) -> float:
    """Compute the mean over prompts of the gap between the groups' mean cosines, absolute by default.

    Args:
        to_a: [A, X], cosines of the images of the first group with the prompts.
        to_b: [B, X], cosines of the images of the second group with the prompts.
        signed: whether to keep the signs of the gaps, positive where the first group is nearer.

    >>> a, b = np.array([[0.5, 0.25]]), np.array([[0.25, 0.5]])
    >>> delta_gap(a, b), delta_gap(a, b, signed=True)
    (0.25, 0.0)
    """
    gaps = to_a.mean(axis=0) - to_b.mean(axis=0)
    return float(gaps.mean() if signed else np.abs(gaps).mean())


def partition_gaps(
    cosines: Float[np.ndarray, "n x"], in_a: Bool[np.ndarray, "r n"]
) -> Float[np.ndarray, " r"]:
    """Compute the absolute `delta_gap` of many partitions of the same images into A and B.

    Args:
        cosines: [N, X], cosines of all images with the prompts.
        in_a: [R, N], mask of the images of A in each partition; the others are B.

    >>> in_a = np.array([[True, False, False], [False, True, False]])
    >>> partition_gaps(np.array([[3.0], [2.0], [1.0]]), in_a)
    array([1.5, 0. ])
    """
    size_a, sums_a = in_a.sum(axis=1)[:, None], in_a.astype(float) @ cosines
    gaps = sums_a / size_a - (cosines.sum(axis=0) - sums_a) / (in_a.shape[1] - size_a)
    return np.asarray(np.abs(gaps).mean(axis=1))


def cohens_d(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"]) -> float:
    """Compute Cohen's d of the images' mean cosines over all prompts, with pooled SD and ddof 1.

    Returns:
        d, positive where A is nearer; NaN where neither group varies or there are fewer than 3 images.

    >>> round(cohens_d(np.array([[3.0], [5.0]]), np.array([[1.0], [3.0]])), 4)
    1.4142
    """
    a, b = to_a.mean(axis=1), to_b.mean(axis=1)
    degrees = len(a) + len(b) - 2
    if degrees < 1:
        return math.nan
    squares = sum((len(means) - 1) * _variance(means) for means in (a, b) if len(means) > 1)
    return _ratio(float(a.mean() - b.mean()), squares / degrees)


def z_score(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"]) -> float:
    """Compute the absolute gap in standard deviations (Capitani et al. 2024, eq. 4).

    Z = delta gap / sqrt((var_A + var_B) / 2), variances over all (image, prompt) cosines of a group, ddof 1.

    Returns:
        Z, not negative; NaN where neither group varies.

    >>> round(z_score(np.array([[3.0], [5.0]]), np.array([[1.0], [3.0]])), 4)
    1.4142
    """
    return _ratio(delta_gap(to_a, to_b), (_variance(to_a) + _variance(to_b)) / 2)


def upper_tail(z: float) -> float:
    """Compute 1 - Phi(Z), in (0, 1/2] (Capitani et al. 2024, eq. 5).

    It is smaller for more bias, but it is not a p-value.

    >>> upper_tail(0.0)
    0.5
    """
    return float(stats.norm.sf(z))


def cles_mcgraw_wong(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"]) -> float:
    """Compute CLES for normal cosines, Phi((mu_A - mu_B) / sqrt(var_A + var_B)) (McGraw & Wong 1992).

    Returns:
        CLES in [0, 1]; NaN where neither group varies.

    >>> round(cles_mcgraw_wong(np.array([[3.0], [5.0]]), np.array([[1.0], [3.0]])), 4)
    0.8413
    """
    difference = float(to_a.mean() - to_b.mean())
    return float(stats.norm.cdf(_ratio(difference, _variance(to_a) + _variance(to_b))))


def _variance(values: np.ndarray) -> float:
    if values.size < 2:
        return math.nan
    return 0.0 if np.ptp(values) <= TOLERANCE else float(values.var(ddof=1))


def _ratio(difference: float, variance: float) -> float:
    return difference / math.sqrt(variance) if variance > 0 else math.nan


def cles(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"], ties: str = "half") -> float:
    """Compute the share of (a, b, x) in which image a is nearer to prompt x than image b (empirical CLES).

    It is computed from midranks, in O(n log n) per prompt.

    Args:
        to_a: [A, X], cosines of the images of the first group with the prompts.
        to_b: [B, X], cosines of the images of the second group with the prompts.
        ties: weight of equal cosines: "half" counts them as 1/2, "strict" as 0.

    >>> a, b = np.array([[3.0], [2.0]]), np.array([[2.0], [1.0]])
    >>> cles(a, b), cles(a, b, "strict")
    (0.875, 0.75)
    """
    in_a = np.repeat([[True, False]], [len(to_a), len(to_b)], axis=1)
    return float(partition_cles(np.concatenate([to_a, to_b]), in_a, ties)[0])


def partition_cles(
    cosines: Float[np.ndarray, "n x"], in_a: Bool[np.ndarray, "r n"], ties: str = "half"
) -> Float[np.ndarray, " r"]:
    """Compute CLES of many partitions of the same images into A and B.

    Mann-Whitney's U follows from the sum of A's ranks among all images, so that a single matrix product
    computes all partitions.

    Args:
        cosines: [N, X], cosines of all images with the prompts.
        in_a: [R, N], mask of the images of A in each partition; the others are B.
        ties: "half" or "strict", see `cles`.

    >>> in_a = np.array([[True, False, False], [False, True, False]])
    >>> partition_cles(np.array([[3.0], [2.0], [1.0]]), in_a)
    array([1. , 0.5])
    """
    n_prompts, n_a = cosines.shape[1], in_a.sum(axis=1)
    # Sums of multiples of 1/2 are exact in floating point, so partitions with equal shares compare equal.
    ranks = stats.rankdata(cosines, axis=0).sum(axis=1)
    wins = in_a.astype(float) @ ranks - n_prompts * n_a * (n_a + 1) / 2
    # Midranks count a tie of an image of A with an image of B as half a win, which "strict" subtracts.
    for column in cosines.T if ties == "strict" else ():
        order = np.argsort(column, kind="stable")
        tie_starts = np.flatnonzero(np.diff(column[order], prepend=-np.inf))
        if len(tie_starts) < len(column):
            tie_sizes = np.diff(tie_starts, append=len(column))
            tied_a = np.add.reduceat(in_a[:, order], tie_starts, axis=1, dtype=np.int64)
            wins -= (tied_a * (tie_sizes - tied_a)).sum(axis=1) / 2
    return np.asarray(wins / (n_prompts * n_a * (in_a.shape[1] - n_a)))


def resampled_cles(
    to_a: Float[np.ndarray, "a x"],
    to_b: Float[np.ndarray, "b x"],
    weights_a: Int[np.ndarray, "r a"],
    weights_b: Int[np.ndarray, "r b"],
    ties: str = "half",
) -> Float[np.ndarray, " r"]:
    """Compute CLES of each resample r, in which image i occurs `weights[r, i]` times.

    Args:
        to_a: see `cles`.
        to_b: see `cles`.
        weights_a: [R, A], weight of each image of the first group in each resample, not negative.
        weights_b: [R, B], weight of each image of the second group in each resample, not negative.
        ties: see `cles`.

    Returns:
        [R] shares; NaN where a resample contains no image of a group.

    >>> a, b = np.array([[3.0], [1.0]]), np.array([[2.0]])
    >>> resampled_cles(a, b, np.array([[1, 1], [3, 1]]), np.array([[1], [1]]))
    array([0.5 , 0.75])
    """
    doubled_wins = np.zeros((len(weights_b), len(to_b)))
    step = max(1, BLOCK // len(to_b))
    for start in range(0, len(to_a), step):
        block = to_a[start : start + step]
        # Twice the score of a pair, summed over prompts: 2 if a is nearer, 1 for a tie (strict: 0), else 0.
        doubled = np.zeros((len(block), len(to_b)))
        for a, b in zip(block.T, to_b.T, strict=True):
            nearer = a[:, None] > b
            doubled += nearer
            doubled += nearer if ties == "strict" else a[:, None] >= b
        doubled_wins += weights_a[:, start : start + step].astype(float) @ doubled
    triples = weights_a.sum(axis=1, dtype=float) * weights_b.sum(axis=1, dtype=float) * to_a.shape[1]
    shares = np.full(len(weights_a), math.nan)
    np.divide(np.einsum("rb,rb->r", doubled_wins, weights_b) / 2, triples, out=shares, where=triples > 0)
    return shares


def iat_scores(
    positive: Float[np.ndarray, "n j"], negative: Float[np.ndarray, "n j"]
) -> Float[np.ndarray, "n j"]:
    """Score +1 where an image is nearer to a pair's positive prompt than to its negative one, else -1.

    The paper's formula has absolute values, with which all scores would be 1; they are omitted here.

    Args:
        positive: [N, J], cosines of the images with the positive prompt of each pair.
        negative: [N, J], cosines of the images with the negative prompt of each pair.

    >>> iat_scores(np.array([[0.3, 0.1]]), np.array([[0.2, 0.1]]))
    array([[ 1., -1.]])
    """
    return np.where(positive > negative, 1.0, -1.0)


def iat_totals(scores: Float[np.ndarray, "n j"], weights: Int[np.ndarray, "r n"], size: int) -> np.ndarray:
    """Sum the scores of weighted images, scaled to `size` images, [R, J]; NaN where all weights are 0.

    Args:
        scores: [N, J], scores of the images, see `iat_scores`.
        weights: [R, N], weight of each image; for a partition, 1 for the images of the group, 0 for others.
        size: number of images of the group. Weights may have another sum, as a morph's weight is a product.

    >>> iat_totals(np.array([[1.0], [-1.0]]), np.array([[1, 0], [1, 3]]), 2)
    array([[ 2.],
           [-1.]])
    """
    weight_sums = weights.sum(axis=1, dtype=float)[:, None]
    totals = np.full((len(weights), scores.shape[1]), math.nan)
    # Multiplying before dividing keeps integers exact.
    np.divide(weights.astype(float) @ scores * size, weight_sums, out=totals, where=weight_sums > 0)
    return totals


def iat(
    totals_a: Float[np.ndarray, "*r j"], totals_b: Float[np.ndarray, "*r j"], definition: str = "total"
) -> Float[np.ndarray, "*r"]:
    """Compute the implicit association of two groups with pairs of prompts (Capitani et al. 2024).

    Args:
        totals_a: [..., J], sums of the first group's scores, see `iat_totals`.
        totals_b: [..., J], sums of the second group's scores.
        definition: `total` is |mu_A - mu_B| with mu summed over pairs j; `by_pair` sums |mu_Aj - mu_Bj|.

    Returns:
        Association from 0 to 2 n J for groups of n images and J pairs.

    >>> iat(np.array([3.0, -1.0]), np.array([-1.0, 1.0])), iat(np.ones(2), -np.ones(2), "by_pair")
    (np.float64(2.0), np.float64(4.0))
    """
    differences = totals_a - totals_b
    if definition == "by_pair":
        differences = np.abs(differences)
    association: np.ndarray = np.abs(differences.sum(axis=-1))
    return association
