"""Remove directions from vectors: a subspace, a random subspace of equal variance, or a concept.

See docs/methods.md, section 6.17.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import bisect
from torch import Tensor

# Singular values below this share of the largest are rounding errors; of variances, its square.
MIN_RELATIVE_VALUE = 1e-6
# Ends of the powers of the covariance that are searched, and largest relative error of a variance.
POWERS = (-8.0, 16.0)
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Eraser:
    """An affine map that removes directions: x' = x - D R'(x - c).

    Attributes:
        center: [W] the point c, which stays in place.
        readings: [W, r] the columns R, with which a vector is read.
        directions: [W, r] the columns D, along which it is moved.
    """

    center: Float[Tensor, " width"]
    readings: Float[Tensor, "width r"]
    directions: Float[Tensor, "width r"]


def erase(vectors: Float[Tensor, "n width"], eraser: Eraser) -> Float[Tensor, "n width"]:
    """Apply an eraser to vectors; the results have no unit length.

    >>> first = torch.eye(2).double()[:, :1]
    >>> erase(torch.tensor([[3.0, 4.0]]).double(), projection(first, torch.ones(2).double(), 0.5))
    tensor([[2., 4.]], dtype=torch.float64)
    """
    return vectors - (vectors - eraser.center) @ eraser.readings @ eraser.directions.T


def span(columns: Float[Tensor, "width n"]) -> Float[Tensor, "width r"]:
    """Return an orthonormal basis of the span of columns, those of the largest singular values first.

    >>> span(torch.tensor([[2.0, 4.0], [0.0, 0.0]]).double()).abs()
    tensor([[1.],
            [0.]], dtype=torch.float64)
    """
    basis, values, _ = torch.linalg.svd(columns, full_matrices=False)
    of_span: Tensor = basis[:, values > MIN_RELATIVE_VALUE * values.max()]
    return of_span


def projection(
    basis: Float[Tensor, "width r"], center: Float[Tensor, " width"], share: float = 1.0
) -> Eraser:
    """Return the eraser of a share of a subspace with an orthonormal basis Q: x' = x - share Q Q'(x - c)."""
    return Eraser(center, share * basis, basis)


def complement(
    covariance: Float[Tensor, "width width"], basis: Float[Tensor, "width r"]
) -> tuple[Float[Tensor, " m"], Float[Tensor, "width m"]]:
    """Return the variances and principal axes of a covariance in the complement of an orthonormal basis.

    Axes without variance are left out.

    >>> complement(torch.diag(torch.tensor([4.0, 1.0, 0.0])).double(), torch.eye(3).double()[:, :1])[0]
    tensor([1.], dtype=torch.float64)
    """
    rest = torch.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
    variances, axes = torch.linalg.eigh(rest.T @ covariance @ rest)
    return _positive(variances, rest @ axes)


def random_subspace(
    variances: Float[Tensor, " m"],
    axes: Float[Tensor, "width m"],
    columns: Float[Tensor, " r"],
    rng: np.random.Generator,
) -> Float[Tensor, "width r"] | None:
    """Draw orthonormal columns of given variances in the space of principal axes.

    A column is proportional to S^t z, with S the covariance in the complement of the columns before and z
    normal; t in [-8, 16] is found by bisection.

    Args:
        variances: [m] positive variances of the axes.
        axes: [W, m] the orthonormal axes.
        columns: [r] variances of the columns to draw.
        rng: generator of z.

    Returns:
        The columns; None where no t gives a column its variance, to 1e-6 of it.

    >>> variances, axes = torch.tensor([1.0, 2.0, 4.0]).double(), torch.eye(3).double()
    >>> drawn = random_subspace(variances, axes, torch.tensor([3.0]), np.random.default_rng(0))
    >>> (variances @ drawn**2).round(decimals=6)
    tensor([3.], dtype=torch.float64)
    >>> random_subspace(variances, axes, torch.tensor([5.0]), np.random.default_rng(0)) is None
    True
    """
    drawn: list[Tensor] = []
    coordinates: Tensor | None = None
    for variance in columns.tolist():
        if coordinates is not None:  # leave the column before
            variances, inner = complement(torch.diag(variances), coordinates)
            axes = axes @ inner
        if not len(variances):
            return None
        # Drawn in the vectors' coordinates, as the signs of axes differ between computers.
        normal = torch.from_numpy(rng.standard_normal(len(axes)))
        coordinates = _of_variance(variances, axes.T @ normal, variance)
        if coordinates is None:
            return None
        drawn.append(axes @ coordinates)
    return torch.cat([axes[:, :0], *drawn], dim=1)


def _of_variance(variances: Tensor, normal: Tensor, wanted: float) -> Tensor | None:
    """Return the unit vector S^t z of a wanted variance, [m, 1]; None if no t gives it."""

    def direction(power: float) -> Tensor:
        return torch.nn.functional.normalize((variances / variances.max()) ** power * normal, dim=0)

    def excess(power: float) -> float:
        return float(variances @ direction(power) ** 2) / wanted - 1

    if not excess(POWERS[0]) <= 0 <= excess(POWERS[1]):
        return None
    power = bisect(excess, *POWERS, xtol=1e-13)
    return direction(power)[:, None] if abs(excess(power)) <= TOLERANCE else None


def leace(vectors: Float[Tensor, "n width"], concept: Float[Tensor, "n c"]) -> Eraser:
    """Return the eraser after which no linear function of the vectors tells the concept (LEACE).

    x' = x - W⁺ P W (x - x̄), with W the inverse root of the vectors' covariance and P the projection onto the
    span of their whitened covariance with the concept. Of all affine maps after which that covariance is 0,
    it moves the vectors least, in the mean square (Belrose et al. 2023).

    Args:
        vectors: [N, W].
        concept: [N, C] values of the concept, such as ratings [N, 1], or an indicator of each group.

    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).double()
    >>> erase(x, leace(x, x[:, :1])).round(decimals=12)
    tensor([[0.5000, 0.0000],
            [0.5000, 0.0000],
            [0.5000, 1.0000],
            [0.5000, 1.0000]], dtype=torch.float64)
    """
    center = vectors.mean(dim=0)
    centred = vectors - center
    variances, axes = _positive(*torch.linalg.eigh(centred.T @ centred / len(vectors)))
    deviations = variances.sqrt()[:, None]
    cross = centred.T @ (concept - concept.mean(dim=0)) / len(vectors)
    basis = span(axes.T @ cross / deviations)
    return Eraser(center, axes @ (basis / deviations), axes @ (basis * deviations))


def _positive(variances: Tensor, axes: Tensor) -> tuple[Tensor, Tensor]:
    """Drop axes whose variance is a rounding error."""
    is_positive = variances > MIN_RELATIVE_VALUE**2 * variances.max()
    return variances[is_positive], axes[:, is_positive]


def remaining_share(
    values: Float[np.ndarray, "n s"], reference: Float[np.ndarray, " s"]
) -> Float[np.ndarray, " n"]:
    """Return how much of a vector of reference remains: its component along the reference, per its length.

    >>> remaining_share(np.array([[2.0, 0.0], [0.5, 7.0]]), np.array([2.0, 0.0]))
    array([1.  , 0.25])
    """
    return np.asarray(values @ reference / (reference @ reference))


def dose_slope(measured: Float[np.ndarray, " n"], level: Float[np.ndarray, " n"]) -> float:
    """Return the least-squares slope, through 0, of what leaves the level on what leaves the measure.

    Args:
        measured: share of the measure that remains at each dose.
        level: share of the level that remains.

    >>> dose_slope(np.array([0.5, 0.0]), np.array([0.75, 0.5]))
    0.5
    """
    dose = 1 - measured
    return float(dose @ (1 - level) / (dose @ dose))
