"""Compute the empirical common language effect size (CLES) over pairs of images."""

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# Pairs of images compared at once in a bootstrap: a few arrays of 32 MB each.
BLOCK = 2**22


def cles(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"], ties: str = "half") -> float:
    """Compute the share of (a, b, x) in which image a is nearer to prompt x than image b (empirical CLES).

    It uses midranks: O(n log n) per prompt.

    Args:
        to_a: [A, X], cosines of the images of the first group with the prompts.
        to_b: [B, X], cosines of the images of the second group with the prompts.
        ties: weight of equal cosines: "half" counts them as 1/2, "strict" as 0.

    >>> a, b = np.array([[3.0], [2.0]]), np.array([[2.0], [1.0]])
    >>> cles(a, b), cles(a, b, "strict")
    (0.875, 0.75)
    """
    members = np.repeat([[True, False]], [len(to_a), len(to_b)], axis=1)
    return float(partition_cles(np.concatenate([to_a, to_b]), members, ties)[0])


def partition_cles(
    cosines: Float[np.ndarray, "n x"], members: Bool[np.ndarray, "r n"], ties: str = "half"
) -> Float[np.ndarray, " r"]:
    """Compute CLES of many partitions of the same images into A and B.

    Mann-Whitney's U follows from A's sum of ranks among all images: one matrix product covers all partitions.

    Args:
        cosines: [N, X], cosines of all images with the prompts.
        members: [R, N], mask of the images of A in each partition; the others are B.
        ties: "half" or "strict", see `cles`.

    >>> members = np.array([[True, False, False], [False, True, False]])
    >>> partition_cles(np.array([[3.0], [2.0], [1.0]]), members)
    array([1. , 0.5])
    """
    n_prompts, n_a = cosines.shape[1], members.sum(axis=1)
    # Sums of multiples of 1/2 are exact in floating point: partitions with equal shares compare equal.
    ranks = stats.rankdata(cosines, axis=0).sum(axis=1)
    wins = members.astype(float) @ ranks - n_prompts * n_a * (n_a + 1) / 2
    if ties == "strict":
        wins -= _count_ties(cosines, members) / 2
    shares: np.ndarray = wins / (n_prompts * n_a * (members.shape[1] - n_a))
    return shares


def _count_ties(cosines: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Count pairs of an image of A and an image of B with equal cosines, over all prompts, [R]."""
    counts = np.zeros(len(members), dtype=np.int64)
    for column in cosines.T:
        order = np.argsort(column, kind="stable")
        tie_starts = np.flatnonzero(np.diff(column[order], prepend=-np.inf))
        if len(tie_starts) < len(column):
            tie_sizes = np.diff(tie_starts, append=len(column))
            n_a = np.add.reduceat(members[:, order], tie_starts, axis=1, dtype=np.int64)
            counts += (n_a * (tie_sizes - n_a)).sum(axis=1)
    return counts


def resampled_cles(
    to_a: Float[np.ndarray, "a x"],
    to_b: Float[np.ndarray, "b x"],
    weights_a: Int[np.ndarray, "r a"],
    weights_b: Int[np.ndarray, "r b"],
    ties: str = "half",
) -> Float[np.ndarray, " r"]:
    """Compute CLES of each resample r, which contains an image as often as its weight.

    Args:
        to_a: see `cles`.
        to_b: see `cles`.
        weights_a: [R, A], weight of each image of the first group in each resample, not negative.
        weights_b: [R, B], weights of the images of the second group, likewise.
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
