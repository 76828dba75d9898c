"""Draw random properties that the vectors predict as well as the ratings (docs/methods.md, section 6.4)."""

import math
from dataclasses import dataclass

import numpy as np

FOLDS = 5  # of the cross-validation; a cluster lies in one fold
# Penalties of the ridge regression, in units of the mean eigenvalue of the training vectors' scatter matrix.
PENALTIES = np.logspace(-4, 3, 8)
# Axes with a singular value below this share of the largest are rounding errors.
MIN_RELATIVE_SINGULAR = 1e-5
# Minimum number of clusters per axis of the regression.
CLUSTERS_PER_AXIS = 3
# Number of neighbouring axes that are rotated together.
ROTATED_AXES = 8
# The mean R² of the first draws is fitted by bisection to the R² of the ratings: number of these draws and of
# steps, and largest accepted difference.
FITTED_DRAWS, BISECTIONS, MAX_R2_ERROR = 20, 8, 0.02
# Below this R² of the ratings, no properties are drawn.
MIN_R2 = 0.05


@dataclass(frozen=True)
class EncodedProperties:
    """Random properties with the values of the ratings.

    Attributes:
        values: [N, draws] properties; no columns if none could be drawn.
        r2: cross-validated R² of the ratings, predicted from the vectors.
        r2_draws: mean R² of the first 20 draws; NaN if not computed.
        reason: reason why no properties were drawn; empty if they were.
    """

    values: np.ndarray
    r2: float
    r2_draws: float = math.nan
    reason: str = ""


class Ridge:
    """Ridge regression on the leading axes of vectors, cross-validated in folds of whole clusters.

    Args:
        vectors: [N, D] vectors of the items.
        clusters: [N] name or index of each item's cluster.
        seed: seed of the folds.
    """

    def __init__(self, vectors: np.ndarray, clusters: np.ndarray, seed: tuple[int, ...]) -> None:
        _, cluster_of_item = np.unique(clusters, return_inverse=True)
        n_clusters = int(cluster_of_item.max()) + 1
        centred = vectors - vectors.mean(axis=0)
        # Eigenvalues of the scatter matrix [D, D] are the squared singular values of the vectors [N, D].
        eigenvalues, directions = np.linalg.eigh(centred.T @ centred)
        order = np.argsort(-eigenvalues)[: max(1, n_clusters // CLUSTERS_PER_AXIS)]
        order = order[eigenvalues[order] > MIN_RELATIVE_SINGULAR**2 * max(eigenvalues.max(), 0)]
        self.singular_values = np.sqrt(eigenvalues[order])  # [q]
        self.coordinates = centred @ directions[:, order]  # [N, q], U S
        fold_of_cluster = np.random.default_rng([*seed, 0, 3]).permutation(n_clusters) % FOLDS
        self._folds = [self._decompose(fold_of_cluster[cluster_of_item] != fold) for fold in range(FOLDS)]

    def _decompose(self, is_train: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the training mask; directions, eigenvalues and penalties of the training vectors."""
        x = self.coordinates[is_train]
        x = x - x.mean(axis=0)
        eigenvalues, directions = np.linalg.eigh(x.T @ x)
        return is_train, directions, eigenvalues.clip(0), PENALTIES * eigenvalues.mean()

    def compute_residuals(self, y: np.ndarray) -> np.ndarray:
        """Compute out-of-fold residuals of properties [N, R] with each penalty, [penalties, N, R]."""
        residuals = np.empty((len(PENALTIES), *y.shape))
        for is_train, directions, eigenvalues, penalties in self._folds:
            x, mean = self.coordinates - self.coordinates[is_train].mean(axis=0), y[is_train].mean(axis=0)
            projected = directions.T @ (x[is_train].T @ (y[is_train] - mean))
            for index, penalty in enumerate(penalties):
                coefficients = directions @ (projected / (eigenvalues + penalty)[:, None])
                residuals[index, ~is_train] = y[~is_train] - mean - x[~is_train] @ coefficients
        return residuals

    def compute_r2(self, y: np.ndarray) -> np.ndarray:
        """Compute the cross-validated R² of properties [N, R], each with its best penalty, [R]."""
        squares = (self.compute_residuals(y) ** 2).sum(axis=1)
        total = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
        return np.asarray(np.clip(1 - squares.min(axis=0) / np.where(total > 0, total, math.inf), 0, 1))


def draw_encoded_properties(
    vectors: np.ndarray,
    ratings: np.ndarray,
    clusters: np.ndarray,
    permutations: np.ndarray,
    seed: tuple[int, ...],
) -> EncodedProperties:
    """Draw properties with the values of the ratings, and with their R² and spectrum.

    A draw assigns the values of the ratings by the ranks of r f + sqrt(1 - r²) e: f is the prediction of the
    ratings, with loadings rotated at random in blocks of 8 neighbouring axes; e are the ratings' residuals,
    permuted; r is such that the mean R² of 20 draws equals that of the ratings.

    Args:
        vectors: [N, D] vectors of the items.
        ratings: [N] ratings.
        clusters: [N] name or index of each item's cluster.
        permutations: [draws, N] item that gets the residual of each item.
        seed: seed of folds and rotations.
    """
    no_values, ridge = np.empty((len(ratings), 0)), Ridge(vectors, clusters, seed)
    residuals = ridge.compute_residuals(ratings[:, None])[..., 0]
    best = int((residuals**2).sum(axis=1).argmin())
    r2 = float(ridge.compute_r2(ratings[:, None])[0])
    if not r2 >= MIN_R2:
        return EncodedProperties(
            no_values, r2, reason=f"the vectors predict the ratings with R² below {MIN_R2}"
        )
    singular = ridge.singular_values
    # Coefficients of the ridge regression, in units of the axes' singular values.
    projected = (ridge.coordinates / singular).T @ (ratings - ratings.mean())
    loadings = singular * projected / (singular**2 + PENALTIES[best] * (singular**2).mean())
    rng = np.random.default_rng([*seed, 0, 2])
    rotated = np.stack([_rotate(loadings, rng) for _ in permutations], axis=1)
    predicted = _standardise(ridge.coordinates @ rotated)
    permuted_residuals, values = np.empty_like(predicted), np.sort(ratings)
    np.put_along_axis(
        permuted_residuals, permutations.T.astype(np.int64), _standardise(residuals[best])[:, None], axis=0
    )

    def mix(r: float, count: int) -> np.ndarray:
        """Return the first draws with weight r of the prediction, [N, count]."""
        latent = r * predicted[:, :count] + math.sqrt(1 - r * r) * permuted_residuals[:, :count]
        properties = np.empty_like(latent)
        np.put_along_axis(properties, latent.argsort(axis=0, kind="stable"), values[:, None], axis=0)
        return properties

    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_below = ridge.compute_r2(mix(middle, FITTED_DRAWS)).mean() < r2
        low, high = (middle, high) if is_below else (low, middle)
    r = (low + high) / 2
    r2_draws = float(ridge.compute_r2(mix(r, FITTED_DRAWS)).mean())
    if abs(r2_draws - r2) > MAX_R2_ERROR:
        reason = f"no property with the ratings' R² ({r2:.2f}; draws have {r2_draws:.2f})"
        return EncodedProperties(no_values, r2, r2_draws, reason)
    return EncodedProperties(mix(r, len(permutations)), r2, r2_draws)


def _rotate(loadings: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Transform loadings [q] by a random rotation within each block of neighbouring axes."""
    rotated = np.empty_like(loadings)
    for start in range(0, len(loadings), ROTATED_AXES):
        block = slice(start, start + ROTATED_AXES)
        size = len(loadings[block])
        q, triangle = np.linalg.qr(rng.standard_normal((size, size)))
        rotated[block] = (q * np.sign(np.diag(triangle))) @ loadings[block]
    return rotated


def _standardise(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))
