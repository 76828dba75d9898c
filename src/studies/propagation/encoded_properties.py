"""Draw random properties that the vectors predict as well as the ratings (docs/methods.md, section 6.4)."""

import math
from dataclasses import dataclass

import numpy as np

FOLDS = 5  # of the cross-validation, by cluster
# Penalties of the ridge regression, in units of the mean eigenvalue of the training vectors' scatter.
PENALTIES = np.logspace(-4, 3, 8)
# Axes of a smaller share of the largest singular value are rounding errors; clusters per axis.
NEGLIGIBLE, CLUSTERS_PER_AXIS = 1e-5, 3
# Neighbouring axes that are turned together.
TURNED = 8
# Draws whose mean R² is fitted to that of the ratings, steps of the search, largest difference after it.
FITTED, BISECTIONS, TOLERANCE = 20, 8, 0.02
MIN_R2 = 0.05


@dataclass(frozen=True)
class EncodedProperties:
    """Random properties with the values of the ratings.

    Attributes:
        values: [N, draws] properties; without a column if they are refused.
        r2: cross-validated R² of the ratings on the vectors.
        r2_draws: mean R² of the draws.
        reason: reason of a refusal; empty without one.
    """

    values: np.ndarray
    r2: float
    r2_draws: float = math.nan
    reason: str = ""


class Ridge:
    """Ridge regression on the leading axes of vectors, cross-validated in folds of whole clusters.

    Args:
        vectors: [N, D] vectors of the items.
        clusters: [N] name or number of each item's cluster.
        seed: seed of the folds.
    """

    def __init__(self, vectors: np.ndarray, clusters: np.ndarray, seed: tuple[int, ...]) -> None:
        _, numbers = np.unique(clusters, return_inverse=True)
        count = int(numbers.max()) + 1
        centred = vectors - vectors.mean(axis=0)
        # Of the smaller scatter matrix; its eigenvalues are squares of the singular values.
        values, directions = np.linalg.eigh(centred.T @ centred)
        order = np.argsort(-values)[: max(1, count // CLUSTERS_PER_AXIS)]
        order = order[values[order] > NEGLIGIBLE**2 * max(values.max(), 0)]
        self.singular = np.sqrt(values[order])  # [q]
        self.coordinates = centred @ directions[:, order]  # [N, q], U S
        fold_of = np.random.default_rng([*seed, 0, 3]).permutation(count) % FOLDS
        self._folds = [self._fit(fold_of[numbers] != number) for number in range(FOLDS)]

    def _fit(self, is_train: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        x = self.coordinates[is_train]
        x = x - x.mean(axis=0)
        values, directions = np.linalg.eigh(x.T @ x)
        return is_train, directions, values.clip(0), PENALTIES * values.mean()

    def residuals(self, y: np.ndarray) -> np.ndarray:
        """Return out-of-fold residuals of properties [N, R] under each penalty, [penalties, N, R]."""
        residuals = np.empty((len(PENALTIES), *y.shape))
        for is_train, directions, values, penalties in self._folds:
            x, mean = self.coordinates - self.coordinates[is_train].mean(axis=0), y[is_train].mean(axis=0)
            projected = directions.T @ (x[is_train].T @ (y[is_train] - mean))
            for number, penalty in enumerate(penalties):
                coefficients = directions @ (projected / (values + penalty)[:, None])
                residuals[number, ~is_train] = y[~is_train] - mean - x[~is_train] @ coefficients
        return residuals

    def r2(self, y: np.ndarray) -> np.ndarray:
        """Return the cross-validated R² of properties [N, R] with the best penalty of each, [R]."""
        squares = (self.residuals(y) ** 2).sum(axis=1)
        total = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
        return np.asarray(np.clip(1 - squares.min(axis=0) / np.where(total > 0, total, math.inf), 0, 1))


def draw(
    vectors: np.ndarray,
    ratings: np.ndarray,
    clusters: np.ndarray,
    permutations: np.ndarray,
    seed: tuple[int, ...],
) -> EncodedProperties:
    """Draw properties with the values of the ratings, and with their R² and spectrum on the vectors.

    A draw is r f + sqrt(1 - r²) e, whose ranks get the ratings' values. f: the ratings' loadings on the axes,
    turned at random in blocks of 8 neighbouring axes. e: residuals of the ratings, permuted. r: such that the
    mean R² of 20 draws is that of the ratings.

    Args:
        vectors: [N, D] vectors of the items.
        ratings: [N] ratings.
        clusters: [N] cluster of each item, which lies in one fold.
        permutations: [draws, N] permutations of the residuals: the place that each item takes.
        seed: seed of folds and rotations.
    """
    none, ridge = np.empty((len(ratings), 0)), Ridge(vectors, clusters, seed)
    residuals = ridge.residuals(ratings[:, None])[..., 0]
    best = int((residuals**2).sum(axis=1).argmin())
    r2 = float(ridge.r2(ratings[:, None])[0])
    if not r2 >= MIN_R2:
        return EncodedProperties(none, r2, reason=f"the vectors predict the ratings with R² below {MIN_R2}")
    singular = ridge.singular
    # The ridge's loadings on the axes, each in units of its singular value.
    projected = (ridge.coordinates / singular).T @ (ratings - ratings.mean())
    loadings = singular * projected / (singular**2 + PENALTIES[best] * (singular**2).mean())
    rng = np.random.default_rng([*seed, 0, 2])
    turned = np.stack([_turn(loadings, rng) for _ in permutations], axis=1)
    explained = _standardise(ridge.coordinates @ turned)
    other, values = np.empty_like(explained), np.sort(ratings)
    np.put_along_axis(other, permutations.T.astype(np.int64), _standardise(residuals[best])[:, None], axis=0)

    def mix(r: float, count: int) -> np.ndarray:
        latent = r * explained[:, :count] + math.sqrt(1 - r * r) * other[:, :count]
        mixed = np.empty_like(latent)
        np.put_along_axis(mixed, latent.argsort(axis=0, kind="stable"), values[:, None], axis=0)
        return mixed

    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_below = ridge.r2(mix(middle, FITTED)).mean() < r2
        low, high = (middle, high) if is_below else (low, middle)
    r = (low + high) / 2
    r2_draws = float(ridge.r2(mix(r, FITTED)).mean())
    if abs(r2_draws - r2) > TOLERANCE:
        reason = f"no property with the ratings' R² ({r2:.2f}; draws have {r2_draws:.2f})"
        return EncodedProperties(none, r2, r2_draws, reason)
    return EncodedProperties(mix(r, len(permutations)), r2, r2_draws)


def _turn(loadings: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turn loadings [q] by a random rotation in each block of neighbouring axes."""
    turned = np.empty_like(loadings)
    for start in range(0, len(loadings), TURNED):
        block = slice(start, start + TURNED)
        size = len(loadings[block])
        q, triangle = np.linalg.qr(rng.standard_normal((size, size)))
        turned[block] = (q * np.sign(np.diag(triangle))) @ loadings[block]
    return turned


def _standardise(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))
