"""Build the null models of an experiment: exchanged properties, or other sets A and B.

See docs/methods.md, section 6.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src.metrics import pool_vectors
from src.studies.propagation.attributes import HELD_OUT, Corpus

Positions = list[np.ndarray]  # [R, n] positions within a pool, for each property
FOLDS = 5  # of the cross-validation in `cross_validated_r2`
# Penalties of the ridge regression, in units of the mean eigenvalue of the vectors' scatter.
PENALTIES = np.logspace(-4, 3, 8)
# Directions below this share of the largest eigenvalue are rounding errors.
NEGLIGIBLE = 1e-10


@dataclass(frozen=True)
class NullModels:
    """R null models: exchanged attribute sets, and an exchanged property of the exchange units."""

    kind: str  # placebo, family, property or attributes (as in draws.parquet)
    a: list[Positions]  # A for each pool
    b: list[Positions]  # B for each pool
    outcomes: Callable[[int], Tensor] | None  # column -> [exchange units, R]; None: the measured property


def draw_null_models(corpus: Corpus, vectors: Tensor) -> Iterator[NullModels]:
    """Yield the null models of an experiment on a corpus with these vectors, [M, D] or [M, Q, D]."""
    protocol, valence = corpus.protocol, corpus.properties == [None]
    if protocol.placebo:
        yield _permute("placebo", corpus, corpus.exchange.permutations(protocol.placebo))
        if corpus.table.role == "words":
            from snowballstemmer import stemmer

            stems = stemmer("english").stemWords([str(name).lower() for name in corpus.exchange.names])
            families = corpus.exchange.families(stems)
            yield _permute("family", corpus, families.permutations(protocol.placebo, 1))
    # Held-out sets are removed from the corpus: another property would remove other items.
    if valence and protocol.property_draws and protocol.attributes != HELD_OUT:
        yield _draw_encoded(corpus, vectors)
    if protocol.attribute_draws and not (valence and protocol.extremes < 2):  # half a set needs two items
        yield _redraw_sets(corpus, protocol.attribute_draws)


def _permute(kind: str, corpus: Corpus, permutations: np.ndarray) -> NullModels:
    """Build null models of permutations: A_r = π_r(A), B_r = π_r(B), y_r = y after π_r's inverse."""
    a: list[Positions] = []
    b: list[Positions] = []
    for pool in corpus.pools:
        position = np.full(len(corpus.table.frame), -1)
        position[pool.rows] = np.arange(len(pool.rows))
        # Groups share B: they must share one permuted array, so that later code sums it only once.
        cache: dict[int, np.ndarray] = {}
        for sets, permuted in ((pool.a, a), (pool.b, b)):
            for members in sets:
                if id(members) not in cache:
                    rows = corpus.exchange.permuted_rows(pool.rows[members], permutations)
                    cache[id(members)] = position[rows]
            permuted.append([cache[id(members)] for members in sets])
    inverse, outcomes = np.empty_like(permutations), outcomes_of(corpus)
    numbers = np.arange(permutations.shape[1], dtype=permutations.dtype)
    np.put_along_axis(inverse, permutations, numbers[None], axis=1)
    return NullModels(kind, a, b, lambda column: torch.from_numpy(outcomes[:, column][inverse.T]))


def _draw_encoded(corpus: Corpus, vectors: Tensor) -> NullModels:
    """Draw properties that are encoded as well as the ratings, with their own extremes."""
    exchange, n = corpus.exchange, corpus.protocol.extremes
    row_vectors, copies = pool_vectors(vectors), torch.from_numpy(exchange.grid.T)
    # Summed template by template: at once, it would take as much memory as the vectors.
    means = torch.zeros(len(exchange.grid), row_vectors.shape[1], dtype=torch.float64)
    for rows in copies:
        means += row_vectors[rows] / len(copies)
    draws = corpus.protocol.property_draws
    properties = draw_encoded(means.numpy(), outcomes_of(corpus)[:, 0], draws, exchange.seed)
    # Units are sorted by name: equal values stay in that order.
    order = np.argsort(properties, axis=0, kind="stable").T
    a, b = [], []
    for pool in corpus.pools:
        position = np.empty(len(exchange.grid), dtype=np.int64)
        position[exchange.unit_of_row[pool.rows]] = np.arange(len(pool.rows))
        a.append([position[order[:, -n:]]])
        b.append([position[order[:, :n]]])
    return NullModels("property", a, b, lambda _: torch.from_numpy(properties))


def _redraw_sets(corpus: Corpus, draws: int) -> NullModels:
    """Draw A and B again for the measured property."""
    drawn = [corpus.redraw(draw) for draw in range(1, draws + 1)]
    a, b = [], []
    for number in range(len(corpus.pools)):
        a.append([np.stack(sets) for sets in zip(*(draw[number][0] for draw in drawn), strict=True)])
        sets_b = [np.stack(sets) for sets in zip(*(draw[number][1] for draw in drawn), strict=True)]
        is_shared = len({id(members) for members in drawn[0][number][1]}) == 1
        b.append([sets_b[0]] * len(sets_b) if is_shared else sets_b)
    return NullModels("attributes", a, b, None)


def outcomes_of(corpus: Corpus) -> np.ndarray:
    """Return `Pool.outcomes` of each exchange unit, [exchange units, S]."""
    outcomes = np.empty((len(corpus.exchange.grid), len(corpus.properties)))
    for pool in corpus.pools:
        outcomes[corpus.exchange.unit_of_row[pool.rows]] = pool.outcomes
    return outcomes


def draw_encoded(vectors: np.ndarray, ratings: np.ndarray, draws: int, seed: tuple[int, ...]) -> np.ndarray:
    """Draw random properties [N, draws] with the values of the ratings and about their R² on the vectors.

    y* = values of the ratings, assigned by the rank of r f + sqrt(1 - r²) ε; f = U z, standardised; U: left
    singular vectors of the centred vectors [N, D]; z, ε standard normal; r² =
    `cross_validated_r2`. See docs/methods.md, section 6.4.
    """
    rng = np.random.default_rng([*seed, 0, 2])
    centred = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    significant = values > NEGLIGIBLE * values[-1]
    # U z with z rotated into the axes of the vectors, invariant to signs and rotations of eigenvectors.
    whitening = (directions[:, significant] / np.sqrt(values[significant])) @ directions[:, significant].T
    f = centred @ (whitening @ rng.standard_normal((len(values), draws)))
    spread = f.std(axis=0)
    f = (f - f.mean(axis=0)) / np.where(spread > 0, spread, 1)
    r2 = cross_validated_r2(vectors, ratings, seed)
    latent = np.sqrt(r2) * f + np.sqrt(1 - r2) * rng.standard_normal(f.shape)
    properties: np.ndarray = np.empty_like(latent)
    np.put_along_axis(properties, latent.argsort(axis=0), np.sort(ratings)[:, None], axis=0)
    return properties


def cross_validated_r2(vectors: np.ndarray, ratings: np.ndarray, seed: tuple[int, ...]) -> float:
    """Compute the cross-validated R² of ratings on vectors; 0 where predictions are worse than the mean.

    Ridge regression with five seeded folds and the best of eight penalties.
    """
    fold = np.random.default_rng([*seed, 0, 3]).permutation(len(ratings)) % FOLDS
    residual = np.zeros(len(PENALTIES))
    for number in range(FOLDS):
        train, test = fold != number, fold == number
        x, y = vectors[train], ratings[train]
        centre, mean = x.mean(axis=0), y.mean()
        values, directions = np.linalg.eigh((x - centre).T @ (x - centre))
        projected = directions.T @ ((x - centre).T @ (y - mean))
        penalty = PENALTIES[:, None] * values.mean()
        coefficients = directions @ (projected / (values.clip(0) + penalty)).T
        predicted = mean + (vectors[test] - centre) @ coefficients
        residual += ((ratings[test][:, None] - predicted) ** 2).sum(axis=0)
    total = ((ratings - ratings.mean()) ** 2).sum()
    return float(np.clip(1 - residual.min() / total, 0, 1)) if total > 0 else 0.0
