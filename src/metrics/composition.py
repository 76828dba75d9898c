"""Whose images are retrieved: the top k against the base (Hamidieh et al. 2024).

See docs/methods.md, section 4.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import rel_entr


def normalised_entropy(shares: Float[np.ndarray, "*n g"]) -> Float[np.ndarray, "*n"]:
    """Shannon entropy over its largest, ln|G|: 1 where all groups are retrieved alike, 0 where only one is.

    Args:
        shares: [..., G], of each of at least 2 groups; they sum to 1, 0 ln 0 = 0.

    >>> normalised_entropy(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([1., 0.])
    """
    groups = shares.shape[-1]
    # As distance from evenness, which is exactly 0 where the shares are even.
    found: np.ndarray = 1 - rel_entr(shares, 1 / groups).sum(axis=-1) / np.log(groups)
    return found


def kl(shares: Float[np.ndarray, "*n g"], base: Float[np.ndarray, " g"]) -> Float[np.ndarray, "*n"]:
    """Kullback-Leibler divergence of what is retrieved from the base, in nats; 0 where they are equal.

    Args:
        shares: [..., G], they sum to 1.
        base: [G], likewise, all above 0.

    >>> kl(np.array([1.0, 0.0]), np.array([0.5, 0.5])).round(4)
    np.float64(0.6931)
    """
    found: np.ndarray = rel_entr(shares, base).sum(axis=-1)
    return found


def max_skew(
    shares: Float[np.ndarray, "*n g"], base: Float[np.ndarray, " g"], k: int
) -> Float[np.ndarray, "*n"]:
    """MaxSkew@k: log ratio of the group that is most over-represented (Geyik, Ambler & Kenthapadi 2019).

    Args:
        shares: [..., G], of the top k; a share of nothing counts as 1/k.
        base: [G], all above 0.
        k: how many are retrieved.

    >>> max_skew(np.array([0.75, 0.25]), np.array([0.5, 0.5]), 4).round(4)
    np.float64(0.4055)
    """
    found: np.ndarray = np.log(np.maximum(shares, 1 / k) / base).max(axis=-1)
    return found


def ndkl(members: Bool[np.ndarray, "*n k g"], base: Float[np.ndarray, " g"]) -> Float[np.ndarray, "*n"]:
    """NDKL@k: divergence of each top i from the base, discounted by log2(i + 1) (Geyik et al. 2019).

    Args:
        members: [..., k, G], the group of each retrieved image, most similar first.
        base: [G], all above 0.

    Returns:
        In nats; 0 only where every top i has the composition of the base.

    >>> ndkl(np.array([[True, False], [False, True]]), np.array([0.5, 0.5])).round(4)
    np.float64(0.425)
    """
    places = np.arange(1, members.shape[-2] + 1)
    shares = members.cumsum(axis=-2) / places[:, None]
    discount = 1 / np.log2(places + 1)
    found: np.ndarray = kl(shares, base) @ discount / discount.sum()
    return found
