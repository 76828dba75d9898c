"""Compare groups of images by associations with captions and by shares of the top k.

See docs/methods.md, section 4.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr, ndtri, rel_entr, stdtr, stdtrit

# Standard deviation below which a caption's cosines count as constant: they differ only by rounding errors.
TOLERANCE = 1e-10
# Lower limit of a group's variance of standardised cosines: float32 sums cannot resolve smaller ones.
MIN_VARIANCE = 1e-6


def group_association(
    cosines: Float[np.ndarray, "w n"], membership: Bool[np.ndarray, "n g"]
) -> Float[np.ndarray, "w g"]:
    """Compute the association C(c, G) of each caption c with each group G of images.

    C(c, G) = (mean cosine over G - mean over all other images) / standard deviation over all, ddof 1.

    Args:
        cosines: [W, N], cosines of captions with images.
        membership: [N, G], whether an image is in a group; no group is empty or contains all images.

    Returns:
        [W, G] associations in standard deviations; NaN where a caption is equally similar to all images.

    >>> group_association(np.array([[0.0, 1.0]]), np.array([[False], [True]])).round(4)
    array([[1.4142]])
    """
    return np.asarray(standardise(cosines) @ membership * association_factors(membership))


def standardise(cosines: Float[np.ndarray, "w n"]) -> Float[np.ndarray, "w n"]:
    """Standardise each caption's cosines (ddof 1); NaN where their standard deviation is 0.

    >>> standardise(np.array([[1.0, 2.0, 3.0]]))
    array([[-1.,  0.,  1.]])
    """
    z_scores: np.ndarray = cosines - cosines.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.einsum("wn,wn->w", z_scores, z_scores) / max(1, cosines.shape[1] - 1))
    z_scores /= np.where(deviation > TOLERANCE, deviation, math.nan)[:, None]
    return z_scores


def association_factors(membership: Bool[np.ndarray, "n g"]) -> Float[np.ndarray, " g"]:
    """Compute the factor that turns a group's sum of standardised cosines into its association.

    Standardised cosines sum to 0 over all images, so the sum over the other images is minus the group's sum.

    >>> association_factors(np.array([[True], [False], [False]]))
    array([1.5])
    """
    sizes = membership.sum(axis=0)
    return np.asarray(1 / sizes + 1 / (len(membership) - sizes))


@dataclass(frozen=True)
class WelchTests:
    """Welch's tests of groups against all other images, on standardised cosines.

    Attributes:
        difference: mean of the group minus mean of the others, the association C(c, G).
        error: standard error of the difference, from the variances of the group and of the others.
        df: Welch-Satterthwaite degrees of freedom.
    """

    difference: Float[np.ndarray, "w r g"]
    error: Float[np.ndarray, "w r g"]
    df: Float[np.ndarray, "w r g"]

    def score(self) -> Float[np.ndarray, "w r g"]:
        """Compute the normal score of |t|, Φ⁻¹(F(|t|)).

        F is the distribution of t: normal scores are comparable between degrees of freedom.
        """
        # The lower tail keeps its precision where F is near 1.
        return np.asarray(-ndtri(stdtr(self.df, -np.abs(self.difference) / self.error)))

    def difference_at(self, score: Float[np.ndarray, "w r g"] | float) -> Float[np.ndarray, "w r g"]:
        """Compute the absolute difference with a given score, for these errors and degrees of freedom."""
        return np.asarray(-stdtrit(self.df, ndtr(-score)) * self.error)


def welch_tests(
    cosines: Float[np.ndarray, "w n"],
    squares: Float[np.ndarray, "w n"],
    cells: Int[np.ndarray, "r n"],
    groups: list[Bool[np.ndarray, "c g"]],
) -> list[WelchTests]:
    """Compute Welch's t of each group against all other images, for each assignment of cells to images.

    Args:
        cosines: [W, N], standardised cosines, see `standardise`.
        squares: [W, N], their squares.
        cells: [R, N], index of each image's cell (race x gender) in each of R assignments; all assignments
            have the same number of images per cell.
        groups: for each axis (race, gender, both), whether a cell is in a group of the axis, [C, G]. Each
            group and its complement have at least 2 images.

    Returns:
        Tests [W, R, G] for each axis.

    >>> labels, axis = np.array([[0, 0, 1, 1]]), np.array([[True], [False]])
    >>> z = standardise(np.array([[1.0, 2.0, 3.0, 5.0]]))
    >>> test = welch_tests(z, z**2, labels, [axis])[0]
    >>> (test.difference / test.error).round(4), test.df.round(4), test.score().round(4)
    (array([[[-2.2361]]]), array([[[1.4706]]]), array([[[1.2852]]]))
    """
    shape = len(cosines), len(cells), len(groups[0])
    # Rows are assignments and cells, with 1 for the images of the cell: one matrix product sums all cells.
    indicators = np.zeros((*shape[1:], cells.shape[1]), dtype=cosines.dtype)
    np.put_along_axis(indicators, cells[:, None].astype(np.int64), 1, axis=1)
    indicators = indicators.reshape(-1, cells.shape[1])
    sums, sums_of_squares = (
        (values @ indicators.T).reshape(shape).astype(float) for values in (cosines, squares)
    )
    sizes = np.bincount(cells[0], minlength=shape[2])
    tests = []
    for membership in groups:
        means, squared_errors, degrees = [], [], []
        for is_included in (membership, ~membership):
            count = sizes @ is_included
            mean = sums @ is_included / count
            variance = (sums_of_squares @ is_included - count * mean**2) / (count - 1)
            means.append(mean)
            squared_errors.append(np.maximum(variance, MIN_VARIANCE) / count)
            degrees.append(count - 1)
        total_squared_error = squared_errors[0] + squared_errors[1]
        df = total_squared_error**2 / (
            squared_errors[0] ** 2 / degrees[0] + squared_errors[1] ** 2 / degrees[1]
        )
        tests.append(WelchTests(means[0] - means[1], np.sqrt(total_squared_error), df))
    return tests


def normalised_entropy(shares: Float[np.ndarray, "*n g"]) -> Float[np.ndarray, "*n"]:
    """Compute Shannon entropy divided by its maximum, ln|G|: 1 for equal shares, 0 for a single group.

    Args:
        shares: [..., G], shares of at least 2 groups, with sum 1; 0 ln 0 counts as 0.

    >>> normalised_entropy(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([1., 0.])
    """
    n_groups = shares.shape[-1]
    # Computed as the divergence from equal shares, which is exactly 0 where the shares are equal.
    entropy: np.ndarray = 1 - rel_entr(shares, 1 / n_groups).sum(axis=-1) / np.log(n_groups)
    return entropy


def kl(shares: Float[np.ndarray, "*n g"], base: Float[np.ndarray, " g"]) -> Float[np.ndarray, "*n"]:
    """Compute the Kullback-Leibler divergence of shares from the base, in nats; 0 where they are equal.

    Args:
        shares: [..., G], shares of the groups among the retrieved images, with sum 1.
        base: [G], base shares, with sum 1, all above 0.

    >>> kl(np.array([1.0, 0.0]), np.array([0.5, 0.5])).round(4)
    np.float64(0.6931)
    """
    divergence: np.ndarray = rel_entr(shares, base).sum(axis=-1)
    return divergence


def max_skew(
    shares: Float[np.ndarray, "*n g"], base: Float[np.ndarray, " g"], k: int
) -> Float[np.ndarray, "*n"]:
    """Compute MaxSkew@k, the largest log ratio of share to base (Geyik, Ambler & Kenthapadi 2019).

    Args:
        shares: [..., G], shares of the groups among the top k; a share of 0 counts as 1/k.
        base: [G], base shares, all above 0.
        k: number of retrieved images.

    >>> max_skew(np.array([0.75, 0.25]), np.array([0.5, 0.5]), 4).round(4)
    np.float64(0.4055)
    """
    largest: np.ndarray = skew(shares, base, k).max(axis=-1)
    return largest


def skew(
    shares: Float[np.ndarray, "*n g"], base: Float[np.ndarray, " g"], k: int
) -> Float[np.ndarray, "*n g"]:
    """Compute Skew@k of each group, the log ratio of share to base (Geyik, Ambler & Kenthapadi 2019).

    Args:
        shares: [..., G], shares of the groups among the top k; a share of 0 counts as 1/k.
        base: [G], base shares, all above 0.
        k: number of retrieved images.

    >>> skew(np.array([0.75, 0.25]), np.array([0.5, 0.5]), 4).round(4)
    array([ 0.4055, -0.6931])
    """
    return np.asarray(np.log(np.maximum(shares, 1 / k) / base))


def bias_at_k(first: Float[np.ndarray, "*n"], second: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Compute Bias@k of a query, the normalised difference of two counts (Wang, Liu & Wang 2021).

    Bias@k of several queries is the mean over queries.

    Args:
        first: [...], number of images of the first side (published: masculine) among the top k.
        second: [...], number of images of the second side (published: feminine) among the top k.

    Returns:
        [...], from -1 (second only) to 1 (first only); 0 where both counts are 0.

    >>> bias_at_k(np.array([3.0, 0.0]), np.array([1.0, 0.0]))
    array([0.5, 0. ])
    """
    total = np.asarray(first + second, dtype=float)
    return np.asarray(np.divide(first - second, total, out=np.zeros_like(total), where=total > 0))


def ndkl(membership: Bool[np.ndarray, "*n k g"], base: Float[np.ndarray, " g"]) -> Float[np.ndarray, "*n"]:
    """Compute NDKL@k, the weighted mean of the divergence of the top i from the base, for i = 1 to k.

    The weights are 1 / log2(i + 1).

    Args:
        membership: [..., k, G], whether each retrieved image is in each group, most similar image first.
        base: [G], base shares, all above 0.

    Returns:
        NDKL in nats (Geyik et al. 2019); 0 only where every top i has the shares of the base.

    >>> ndkl(np.array([[True, False], [False, True]]), np.array([0.5, 0.5])).round(4)
    np.float64(0.425)
    """
    ranks = np.arange(1, membership.shape[-2] + 1)
    shares = membership.cumsum(axis=-2) / ranks[:, None]
    discount = 1 / np.log2(ranks + 1)
    divergence: np.ndarray = kl(shares, base) @ discount / discount.sum()
    return divergence
