"""Explain the variance of an outcome by categories, and by linear regression over all orders of entry.

See docs/methods.md, section 6.19.
"""

import math
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from src.metrics.inference import TOLERANCE, draw_orders

# Below this ratio of the smallest to the largest eigenvalue of their correlations, columns are collinear. A
# column is constant in a subsample if its sum of squares there is below this share of that over all units.
COLLINEAR = 1e-9


def permuted_eta_squared(values: ArrayLike, categories: ArrayLike, seed: int) -> tuple[float, float]:
    """Compute the share of variance between categories (eta squared), and its p over permutations.

    Args:
        values: [N], finite values.
        categories: [N], category of each value.
        seed: random seed of the permutations, see `draw_orders`.

    Returns:
        The share, from 0 to 1, and the share of permutations of the values, the given order included, in
        which it is at least as large; NaN if all values are equal.

    >>> permuted_eta_squared([1, 2, 8, 9], [*"aabb"], seed=0)
    (0.98, 0.3333333333333333)
    """
    y = np.asarray(values, dtype=float)
    centred = y - y.mean()
    total = float(centred @ centred)
    if np.ptp(y) == 0:
        return math.nan, math.nan
    names, indices = np.unique(np.asarray(categories), return_inverse=True)
    indicators = np.eye(len(names))[indices]
    sums = centred[draw_orders(len(y), seed)] @ indicators
    shares = (sums**2 / indicators.sum(axis=0)).sum(axis=1) / total
    observed = shares[0]  # the first order is that of the values
    return float(observed), float((shares >= observed - TOLERANCE).mean())


def fit_coefficients(
    design: Float[np.ndarray, "n p"], outcome: Float[np.ndarray, " n"], subsamples: Bool[np.ndarray, "g n"]
) -> Float[np.ndarray, "g p"]:
    """Compute the coefficients of least squares with an intercept (not returned) in each subsample.

    Args:
        design: [N, P], columns of the predictors.
        outcome: [N], finite outcome.
        subsamples: [G, N], masks of the units of each subsample.

    Returns:
        [G, P], NaN where a subsample does not identify all coefficients.

    >>> fit_coefficients(np.array([[0.0], [1], [2]]), np.array([1.0, 3, 5]), np.ones((1, 3), bool)).round(9)
    array([[2.]])
    """
    predictor_products, outcome_products, _ = _sum_products(design, outcome[:, None], subsamples)
    regular = _are_regular(predictor_products, design)
    safe = np.where(regular[:, None, None], predictor_products, np.eye(design.shape[1]))
    return np.where(regular[:, None], np.linalg.solve(safe, outcome_products)[:, :, 0], math.nan)


def average_orders(
    design: Float[np.ndarray, "n p"],
    predictor_of_column: Int[np.ndarray, " p"],
    outcomes: Float[np.ndarray, "n m"],
    subsamples: Bool[np.ndarray, "g n"],
) -> Float[np.ndarray, "g m k"]:
    """Split R² among predictors by averaging over all orders of entry (Lindeman, Merenda & Gold 1980).

    Args:
        design: [N, P], columns of K predictors.
        predictor_of_column: [P], index of each column's predictor, from 0 to K − 1; the columns of a
            categorical predictor enter together.
        outcomes: [N, M], finite outcomes.
        subsamples: [G, N], masks of the units of each subsample.

    Returns:
        Shares of the outcome's variance [G, M, K], whose sum over predictors is R²; NaN where a subsample
        does not identify all coefficients, or its outcome is constant.

    >>> x = np.array([[0.0, 1], [1, 0], [2, 0], [3, 1]])
    >>> y = np.array([[0.0], [1], [2], [4]])
    >>> average_orders(x, np.array([0, 1]), y, np.ones((1, 4), bool)).round(3)
    array([[[0.966, 0.029]]])
    """
    predictor_products, outcome_products, totals = _sum_products(design, outcomes, subsamples)
    regular = _are_regular(predictor_products, design)
    safe = np.where(regular[:, None, None], predictor_products, np.eye(design.shape[1]))
    count = int(predictor_of_column.max()) + 1

    def explain(entered: tuple[int, ...]) -> np.ndarray:
        """Compute R² of the predictors that have entered, [G, M]."""
        columns = np.flatnonzero(np.isin(predictor_of_column, entered))
        if not len(columns):
            return np.zeros_like(totals)
        entered_products = outcome_products[:, columns]
        coefficients = np.linalg.solve(safe[:, columns[:, None], columns], entered_products)
        return np.asarray((entered_products * coefficients).sum(axis=1) / totals)

    sets = [chosen for size in range(count + 1) for chosen in combinations(range(count), size)]
    explained = {chosen: explain(chosen) for chosen in sets}
    shares = np.zeros((*totals.shape, count))
    for chosen in sets:
        for predictor in {*range(count)} - {*chosen}:
            # Share of all orders in which exactly `chosen` come before the predictor.
            weight = 1 / (count * math.comb(count - 1, len(chosen)))
            added = explained[tuple(sorted((*chosen, predictor)))] - explained[chosen]
            shares[:, :, predictor] += weight * added
    return np.where(regular[:, None, None], shares, math.nan)


def _sum_products(
    design: np.ndarray, outcomes: np.ndarray, subsamples: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum products of centred columns in each subsample.

    Returns:
        Sums of products of predictors [G, P, P], of predictors and outcomes [G, P, M], and sums of squares of
        outcomes [G, M], NaN where an outcome is constant.
    """
    weights = subsamples.astype(float)
    count = weights.sum(axis=1)[:, None, None]
    # Columns are centred first, so that sums of products lose no digits.
    x, y = (columns - columns.mean(axis=0) for columns in (design, outcomes))
    sums_x, sums_y = ((weights @ columns)[:, None] for columns in (x, y))
    predictor_products = np.einsum("gn,np,nq->gpq", weights, x, x) - sums_x.swapaxes(1, 2) * sums_x / count
    outcome_products = (
        np.einsum("gn,np,nm->gpm", weights, x, y, optimize=True) - sums_x.swapaxes(1, 2) * sums_y / count
    )
    totals = weights @ y**2 - sums_y[:, 0] ** 2 / count[:, 0]
    # Because of rounding, the sum of squares of an outcome that is constant in a subsample is tiny, not 0.
    varies = totals > TOLERANCE * (weights @ y**2)
    return predictor_products, outcome_products, np.where(varies, totals, math.nan)


def _are_regular(products: np.ndarray, design: np.ndarray) -> np.ndarray:
    """Return whether the columns vary and are not collinear in each subsample, [G].

    `products`: sums of products of the columns of `design` in each subsample, [G, P, P].
    """
    diagonal = np.einsum("gpp->gp", products)
    # Because of rounding, the sum of squares of a column that is constant in a subsample is tiny, not 0.
    varies = diagonal > COLLINEAR * np.var(design, axis=0) * len(design)
    scale = np.sqrt(np.where(varies, diagonal, 1))
    eigenvalues = np.linalg.eigvalsh(products / (scale[:, :, None] * scale[:, None]))
    return np.asarray(varies.all(axis=1) & (eigenvalues[:, 0] > COLLINEAR * eigenvalues[:, -1]))
