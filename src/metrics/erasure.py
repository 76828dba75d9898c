"""Remove directions from vectors: a subspace, a random subspace of equal variance, or a concept.

See docs/methods.md, section 6.17.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import bisect
from torch import Tensor

# Singular values below this fraction of the largest are rounding errors; variances below its square.
MIN_RELATIVE_SINGULAR_VALUE = 1e-6
# Range of the powers of the covariance that are searched, and maximum relative error of the variance.
POWER_RANGE = (-8.0, 16.0)
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Eraser:
    """An affine map that removes directions: x' = x - D R'(x - c).

    Attributes:
        center: [W] the point c, which is not moved.
        coordinates: [W, r] the columns R; R'(x - c) are the coordinates of a vector that are removed.
        directions: [W, r] the columns D, the directions of these coordinates.
    """

    center: Float[Tensor, " width"]
    coordinates: Float[Tensor, "width r"]
    directions: Float[Tensor, "width r"]


def erase(vectors: Float[Tensor, "n width"], eraser: Eraser) -> Float[Tensor, "n width"]:
    """Apply an eraser to vectors; the results are not of unit length.

    >>> first = torch.eye(2).double()[:, :1]
    >>> erase(torch.tensor([[3.0, 4.0]]).double(), projection(first, torch.ones(2).double(), 0.5))
    tensor([[2., 4.]], dtype=torch.float64)
    """
    return vectors - (vectors - eraser.center) @ eraser.coordinates @ eraser.directions.T


def span(columns: Float[Tensor, "width n"]) -> Float[Tensor, "width r"]:
    """Return an orthonormal basis of the span of columns, by decreasing singular value.

    >>> span(torch.tensor([[2.0, 4.0], [0.0, 0.0]]).double()).abs()
    tensor([[1.],
            [0.]], dtype=torch.float64)
    """
    left_vectors, values, _ = torch.linalg.svd(columns, full_matrices=False)
    basis: Tensor = left_vectors[:, values > MIN_RELATIVE_SINGULAR_VALUE * values.max()]
    return basis


def projection(
    basis: Float[Tensor, "width r"], center: Float[Tensor, " width"], share: float = 1.0
) -> Eraser:
    """Return the eraser that removes a share of a subspace with the orthonormal basis Q.

    x' = x - share Q Q'(x - c).
    """
    return Eraser(center, share * basis, basis)


def complement(
    covariance: Float[Tensor, "width width"], basis: Float[Tensor, "width r"]
) -> tuple[Float[Tensor, " m"], Float[Tensor, "width m"]]:
    """Return the variances and principal axes of a covariance in the complement of an orthonormal basis.

    Axes without variance are left out.

    >>> complement(torch.diag(torch.tensor([4.0, 1.0, 0.0])).double(), torch.eye(3).double()[:, :1])[0]
    tensor([1.], dtype=torch.float64)
    """
    complement_basis = torch.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
    variances, axes = torch.linalg.eigh(complement_basis.T @ covariance @ complement_basis)
    return _drop_zero_variances(variances, complement_basis @ axes)


def random_subspace(
    variances: Float[Tensor, " m"],
    axes: Float[Tensor, "width m"],
    column_variances: Float[Tensor, " r"],
    rng: np.random.Generator,
) -> Float[Tensor, "width r"] | None:
    """Draw orthonormal columns with given variances in the space of principal axes.

    A column is proportional to S^t z, where S is the covariance in the complement of the previous columns, z
    is normal, and t in [-8, 16] is computed by bisection.

    Args:
        variances: [m] positive variances of the axes.
        axes: [W, m] the orthonormal axes.
        column_variances: [r] variances of the columns to draw.
        rng: random generator of z.

    Returns:
        Columns [W, r]; None if no t gives a column its variance within a relative error of 1e-6.

    >>> variances, axes = torch.tensor([1.0, 2.0, 4.0]).double(), torch.eye(3).double()
    >>> drawn = random_subspace(variances, axes, torch.tensor([3.0]), np.random.default_rng(0))
    >>> (variances @ drawn**2).round(decimals=6)
    tensor([3.], dtype=torch.float64)
    >>> random_subspace(variances, axes, torch.tensor([5.0]), np.random.default_rng(0)) is None
    True
    """
    drawn: list[Tensor] = []
    coordinates: Tensor | None = None
    for variance in column_variances.tolist():
        if coordinates is not None:  # restrict the space to the complement of the previous column
            variances, inner = complement(torch.diag(variances), coordinates)
            axes = axes @ inner
        if not len(variances):
            return None
        # z is drawn in the vectors' coordinates, as the signs of axes differ between computers.
        normal = torch.from_numpy(rng.standard_normal(len(axes)))
        coordinates = _solve_for_variance(variances, axes.T @ normal, variance)
        if coordinates is None:
            return None
        drawn.append(axes @ coordinates)
    return torch.cat([axes[:, :0], *drawn], dim=1)


def _solve_for_variance(variances: Tensor, normal: Tensor, target: float) -> Tensor | None:
    """Return the unit vector along S^t z whose variance is the target, [m, 1]; None if no t gives it."""

    def direction(power: float) -> Tensor:
        return torch.nn.functional.normalize((variances / variances.max()) ** power * normal, dim=0)

    def relative_error(power: float) -> float:
        return float(variances @ direction(power) ** 2) / target - 1

    if not relative_error(POWER_RANGE[0]) <= 0 <= relative_error(POWER_RANGE[1]):
        return None
    power = bisect(relative_error, *POWER_RANGE, xtol=1e-13)
    return direction(power)[:, None] if abs(relative_error(power)) <= TOLERANCE else None


def leace(vectors: Float[Tensor, "n width"], concept: Float[Tensor, "n c"]) -> Eraser:
    """Return the eraser after which no linear function of the vectors predicts the concept (LEACE).

    x' = x - W⁺ P W (x - x̄), where W is the inverse root of the vectors' covariance and P the projection onto
    the span of their whitened covariance with the concept. Of all affine maps after which the covariance with
    the concept is 0, it moves the vectors by the smallest mean square (Belrose et al. 2023).

    Args:
        vectors: [N, W].
        concept: [N, C], values of the concept, such as ratings [N, 1] or indicators of C groups.

    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).double()
    >>> erase(x, leace(x, x[:, :1])).round(decimals=12)
    tensor([[0.5000, 0.0000],
            [0.5000, 0.0000],
            [0.5000, 1.0000],
            [0.5000, 1.0000]], dtype=torch.float64)
    """
    center = vectors.mean(dim=0)
    centred = vectors - center
    variances, axes = _drop_zero_variances(*torch.linalg.eigh(centred.T @ centred / len(vectors)))
    deviations = variances.sqrt()[:, None]
    cross = centred.T @ (concept - concept.mean(dim=0)) / len(vectors)
    basis = span(axes.T @ cross / deviations)
    return Eraser(center, axes @ (basis / deviations), axes @ (basis * deviations))


def _drop_zero_variances(variances: Tensor, axes: Tensor) -> tuple[Tensor, Tensor]:
    """Drop axes whose variance is a rounding error."""
    if not len(variances):  # a basis that fills the space has no complement
        return variances, axes
    is_positive = variances > MIN_RELATIVE_SINGULAR_VALUE**2 * variances.max()
    return variances[is_positive], axes[:, is_positive]


def remaining_share(
    values: Float[np.ndarray, "n s"], reference: Float[np.ndarray, " s"]
) -> Float[np.ndarray, " n"]:
    """Return the component of vectors along a reference, as a share of the reference's length.

    Args:
        values: [N, S], vectors.
        reference: [S], reference vector, not zero.

    >>> remaining_share(np.array([[2.0, 0.0], [0.5, 7.0]]), np.array([2.0, 0.0]))
    array([1.  , 0.25])
    """
    return np.asarray(values @ reference / (reference @ reference))


def dose_slope(measured: Float[np.ndarray, " n"], level: Float[np.ndarray, " n"]) -> float:
    """Return the least-squares slope, through 0, of the level's removed share on the measure's removed share.

    Args:
        measured: [N], share of the measure that remains at each dose.
        level: [N], share of the level that remains at each dose.

    >>> dose_slope(np.array([0.5, 0.0]), np.array([0.75, 0.5]))
    0.5
    """
    dose = 1 - measured
    return float(dose @ (1 - level) / (dose @ dose))
