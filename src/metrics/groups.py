"""Association of captions with groups of images (Hamidieh et al. 2024; docs/methods.md, section 4)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float, Int

# Cosines are rounded to 12 decimals: captions that vary by less over the images do not vary.
TOLERANCE = 1e-10


def group_association(
    cosines: Float[np.ndarray, "w n"], members: Bool[np.ndarray, "n g"]
) -> Float[np.ndarray, "w g"]:
    """C(c, G) = (mean over G of cos - mean over all others) / standard deviation over all, ddof 1.

    Args:
        cosines: [W, N], of captions with images.
        members: [N, G], which images are of which group; neither all nor none.

    Returns:
        [W, G], in standard deviations; NaN where a caption is equally similar to all images.

    >>> group_association(np.array([[0.0, 1.0]]), np.array([[False], [True]])).round(4)
    array([[1.4142]])
    """
    found: np.ndarray = standardised(cosines) @ members * gaps(members)
    return found


def standardised(cosines: Float[np.ndarray, "w n"]) -> Float[np.ndarray, "w n"]:
    """Each caption's cosines less their mean, over their standard deviation (ddof 1); NaN where that is 0."""
    found: np.ndarray = cosines - cosines.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.einsum("wn,wn->w", found, found) / max(1, cosines.shape[1] - 1))
    found /= np.where(deviation > TOLERANCE, deviation, math.nan)[:, None]
    return found


def gaps(members: Bool[np.ndarray, "n g"]) -> Float[np.ndarray, " g"]:
    """Factor that makes a group's sum of standardised cosines its association.

    All of them sum to 0, so that those of the others sum to the negative.
    """
    inside = members.sum(axis=0)
    found: np.ndarray = 1 / inside + 1 / (len(members) - inside)
    return found


def permuted_association(
    cosines: Float[np.ndarray, "w n"], cells: Int[np.ndarray, "r n"], groups: list[Bool[np.ndarray, "c g"]]
) -> list[Float[np.ndarray, "r w"]]:
    """Largest standardised association over the groups of each axis, under permuted labels.

    A group's association is divided by its standard error under the null, sqrt(1/n_G + 1/n_rest), so that
    small groups, whose associations vary more, do not decide alone (Westfall & Young 1993).

    Args:
        cosines: [W, N], see `standardised`.
        cells: [R, N], which cell of the crossed labels each image is given.
        groups: of each axis: [cells, G], which cells make up which group.

    Returns:
        Of each axis: [R, W].
    """
    count = len(groups[0])
    sizes = np.bincount(cells[0], minlength=count)
    # One row per draw and cell, 1 where an image is given that cell: a matrix product adds them all up.
    chosen = np.zeros((len(cells), count, cells.shape[1]), dtype=cosines.dtype)
    np.put_along_axis(chosen, cells[:, None].astype(np.int64), 1, axis=1)
    sums = (cosines @ chosen.reshape(-1, cells.shape[1]).T).reshape(len(cosines), len(cells), count)
    found = []
    for axis in groups:
        inside = sizes @ axis
        error = np.sqrt(1 / inside + 1 / (cells.shape[1] - inside))
        # The sum times both reciprocals is the association; over its error that leaves one of them.
        found.append(np.abs(sums @ axis * error).max(axis=2).T)
    return found
