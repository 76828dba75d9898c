"""Empirical common language effect size (CLES): who is nearer to prompts, pair of images by pair."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# Pairs of images compared at once in a bootstrap: 32 MB each of a few arrays.
BLOCK = 2**22


def cles(to_a: Float[np.ndarray, "a x"], to_b: Float[np.ndarray, "b x"], ties: str = "half") -> float:
    """Empirical CLES: share of (a, b, x) in which image a is nearer to prompt x than image b.

    By midranks, O(n log n) per prompt.

    Args:
        to_a, to_b: cosines of the images of each group with the prompts.
        ties: half counts an equal cosine a half; strict counts it nothing.

    >>> a, b = np.array([[3.0], [2.0]]), np.array([[2.0], [1.0]])
    >>> cles(a, b), cles(a, b, "strict")
    (0.875, 0.75)
    """
    members = np.repeat([[True, False]], [len(to_a), len(to_b)], axis=1)
    return float(partition_cles(np.concatenate([to_a, to_b]), members, ties)[0])


def partition_cles(
    cosines: Float[np.ndarray, "n x"], members: Bool[np.ndarray, "r n"], ties: str = "half"
) -> Float[np.ndarray, " r"]:
    """CLES of many partitions of the same images into A and B.

    With ranks over both groups, U of a partition is a sum over A: all partitions are one product.

    Args:
        cosines: of all images with the prompts.
        members: which images are A in each partition; the others are B.
        ties: half or strict, see `cles`.
    """
    prompts, a = cosines.shape[1], members.sum(axis=1)
    # Multiples of a half, summed exactly: equal shares are equal to the last bit.
    ranks = stats.rankdata(cosines, axis=0).sum(axis=1)
    above = members.astype(float) @ ranks - prompts * a * (a + 1) / 2
    if ties == "strict":
        above -= _ties(cosines, members) / 2
    found: np.ndarray = above / (prompts * a * (members.shape[1] - a))
    return found


def _ties(cosines: np.ndarray, members: np.ndarray) -> np.ndarray:
    """[R] equal cosines of an image of A and one of B, over all prompts."""
    found = np.zeros(len(members), dtype=np.int64)
    for column in cosines.T:
        order = np.argsort(column, kind="stable")
        starts = np.flatnonzero(np.diff(column[order], prepend=-np.inf))
        if len(starts) < len(column):
            sizes = np.diff(starts, append=len(column))
            a = np.add.reduceat(members[:, order], starts, axis=1, dtype=np.int64)
            found += (a * (sizes - a)).sum(axis=1)
    return found


def resampled_cles(
    to_a: Float[np.ndarray, "a x"],
    to_b: Float[np.ndarray, "b x"],
    weights_a: Int[np.ndarray, "r a"],
    weights_b: Int[np.ndarray, "r b"],
    ties: str = "half",
) -> Float[np.ndarray, " r"]:
    """CLES of the samples in which each image stands as often as its weight says.

    Args:
        to_a, to_b, ties: see `cles`.
        weights_a, weights_b: of each image in each sample, not negative.

    Returns:
        NaN where a sample holds no image of a group.
    """
    above = np.zeros((len(weights_b), len(to_b)))
    step = max(1, BLOCK // len(to_b))
    for start in range(0, len(to_a), step):
        block = to_a[start : start + step]
        # Twice the share: once if above, once more if not below (strict: above).
        twice = np.zeros((len(block), len(to_b)))
        for a, b in zip(block.T, to_b.T, strict=True):
            nearer = a[:, None] > b
            twice += nearer
            twice += nearer if ties == "strict" else a[:, None] >= b
        above += weights_a[:, start : start + step].astype(float) @ twice
    triples = weights_a.sum(axis=1, dtype=float) * weights_b.sum(axis=1, dtype=float) * to_a.shape[1]
    share = np.full(len(weights_a), math.nan)
    np.divide(np.einsum("rb,rb->r", above, weights_b) / 2, triples, out=share, where=triples > 0)
    return share
