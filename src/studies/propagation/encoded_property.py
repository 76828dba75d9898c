"""Properties that the vectors of a corpus encode as well as they encode its ratings.

See docs/methods.md, section 6.4.
"""

from __future__ import annotations

import numpy as np

FOLDS = 5
# Penalties of the ridge regression, in units of the mean eigenvalue of the vectors' scatter.
PENALTIES = np.logspace(-4, 3, 8)
# Directions of less than this share of the largest eigenvalue are rounding.
NEGLIGIBLE = 1e-10


def encoded(vectors: np.ndarray, ratings: np.ndarray, draws: int, seed: tuple[int, ...]) -> np.ndarray:
    """Random properties with the ratings' own values and about their share of what the vectors tell.

    y* = the ratings' values, assigned by the rank of r f + sqrt(1 - r²) ε; f = U z, standardised; U the left
    singular vectors of the centred vectors; z, ε standard normal; r² = `explained`.

    Args:
        vectors: [N, D], one row per item.
        ratings: [N].
        draws: how many properties.
        seed: of z and ε.

    Returns:
        [N, draws].
    """
    rng = np.random.default_rng([*seed, 0, 2])
    centred = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    kept = values > NEGLIGIBLE * values[-1]
    # U z, with z turned back into the vectors' own axes: no sign or turn of the eigenvectors is left in it.
    whitening = (directions[:, kept] / np.sqrt(values[kept])) @ directions[:, kept].T
    f = centred @ (whitening @ rng.standard_normal((len(values), draws)))
    spread = f.std(axis=0)
    f = (f - f.mean(axis=0)) / np.where(spread > 0, spread, 1)
    r2 = explained(vectors, ratings, seed)
    latent = np.sqrt(r2) * f + np.sqrt(1 - r2) * rng.standard_normal(f.shape)
    found: np.ndarray = np.empty_like(latent)
    np.put_along_axis(found, latent.argsort(axis=0), np.sort(ratings)[:, None], axis=0)
    return found


def explained(vectors: np.ndarray, ratings: np.ndarray, seed: tuple[int, ...]) -> float:
    """Cross-validated R² of ratings on vectors.

    Ridge regression, five seeded folds, the best of eight penalties.

    Returns:
        From 0 (also where it predicts worse than the mean) to 1.
    """
    fold = np.random.default_rng([*seed, 0, 3]).permutation(len(ratings)) % FOLDS
    residual = np.zeros(len(PENALTIES))
    for number in range(FOLDS):
        train, test = fold != number, fold == number
        x, y = vectors[train], ratings[train]
        centre, mean = x.mean(axis=0), y.mean()
        values, directions = np.linalg.eigh((x - centre).T @ (x - centre))
        against = directions.T @ ((x - centre).T @ (y - mean))
        penalty = PENALTIES[:, None] * values.mean()
        coefficients = directions @ (against / (values.clip(0) + penalty)).T
        predicted = mean + (vectors[test] - centre) @ coefficients
        residual += ((ratings[test][:, None] - predicted) ** 2).sum(axis=0)
    total = ((ratings - ratings.mean()) ** 2).sum()
    return float(np.clip(1 - residual.min() / total, 0, 1)) if total > 0 else 0.0
