"""Build the null models of an experiment: exchanged properties, or other sets A and B.

See docs/methods.md, section 6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from src.metrics import pool_vectors
from src.studies.propagation import encoded_properties
from src.studies.propagation.attributes import HELD_OUT, Corpus
from src.studies.propagation.encoded_properties import EncodedProperties

# R arrays of positions within a pool: [R, n] where all are of one size.
Draws = np.ndarray | Sequence[np.ndarray]
Positions = Sequence[Draws]  # for each property


@dataclass(frozen=True)
class NullModels:
    """R null models: exchanged attribute sets, and an exchanged property of the exchange units."""

    kind: str  # placebo, property or attributes (as in draws.parquet)
    a: Sequence[Positions]  # A for each pool
    b: Sequence[Positions]  # B for each pool
    outcomes: Callable[[int], Tensor] | None  # column -> [exchange units, R]; None: the measured property


@dataclass(frozen=True)
class NullExperiment:
    """Null models of an experiment.

    Attributes:
        null_models: models of the placebo, of encoded properties and of other attribute sets, where drawn.
        columns: columns of every analysis: `clusters` of the corpus, R² of ratings and encoded properties.
        refusals: reason why a property of the corpus (None: valence) is not permuted.
        notes: remarks for readers of the numbers.
    """

    null_models: list[NullModels]
    columns: dict[str, Any]
    refusals: dict[str | None, str]
    notes: list[str]


def draw_null_models(corpus: Corpus, vectors: Tensor) -> NullExperiment:
    """Draw the null models of an experiment on a corpus with these vectors, [M, D] or [M, Q, D]."""
    protocol, valence = corpus.protocol, corpus.properties == [None]
    null_models, notes = [], []
    columns: dict[str, Any] = {"clusters": corpus.exchange.clusters}
    reasons = {name: corpus.exchange.refusal(name) for name in corpus.properties}
    refusals = {name: reason for name, reason in reasons.items() if reason}
    if protocol.placebo:
        for reason in dict.fromkeys(refusals.values()):
            names = [name for name in refusals if refusals[name] == reason]
            scope = "" if valence or len(names) == len(reasons) else f" of {', '.join(map(str, names))}"
            notes.append(f"no placebo{scope}, since {reason} ({corpus.table.role} are exchanged by cluster)")
        if len(refusals) < len(reasons):
            null_models.append(_permute(corpus, corpus.exchange.permutations(protocol.placebo)))
    # Held-out sets are removed from the corpus: another property would remove other items.
    if valence and not refusals and protocol.property_draws and protocol.attributes != HELD_OUT:
        properties = _encoded(corpus, vectors)
        columns |= {"property_r2": properties.r2, "property_r2_draws": properties.r2_draws}
        if properties.reason:
            notes.append(f"no property placebo, since {properties.reason}")
        else:
            null_models.append(_with_extremes(corpus, properties.values))
    if protocol.attribute_draws:
        redrawn = _redraw_sets(corpus, protocol.attribute_draws)
        null_models += redrawn
        if not redrawn:
            notes.append(f"no sd_attributes, since half of the {corpus.table.role} is too few for A and B")
    return NullExperiment(null_models, columns, refusals, notes)


def _permute(corpus: Corpus, permutations: np.ndarray) -> NullModels:
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
    return NullModels("placebo", a, b, lambda column: torch.from_numpy(outcomes[:, column][inverse.T]))


def _encoded(corpus: Corpus, vectors: Tensor) -> EncodedProperties:
    """Draw properties that the vectors predict as well as the ratings."""
    exchange = corpus.exchange
    row_vectors, copies = pool_vectors(vectors), torch.from_numpy(exchange.grid.T)
    # Summed template by template: at once, it would take as much memory as the vectors.
    means = torch.zeros(len(exchange.grid), row_vectors.shape[1], dtype=torch.float64)
    for rows in copies:
        means += row_vectors[rows] / len(copies)
    permutations = exchange.permutations(corpus.protocol.property_draws)
    (factor,), ratings = exchange.factors, outcomes_of(corpus)[:, 0]
    return encoded_properties.draw(means.numpy(), ratings, factor.clusters, permutations, exchange.seed)


def _with_extremes(corpus: Corpus, properties: np.ndarray) -> NullModels:
    """Build null models of properties [exchange units, R], with their own extremes as A and B."""
    exchange, n = corpus.exchange, corpus.protocol.extremes
    # Units are sorted by name: equal values stay in that order.
    order = np.argsort(properties, axis=0, kind="stable").T
    a, b = [], []
    for pool in corpus.pools:
        position = np.empty(len(exchange.grid), dtype=np.int64)
        position[exchange.unit_of_row[pool.rows]] = np.arange(len(pool.rows))
        a.append([position[order[:, -n:]]])
        b.append([position[order[:, :n]]])
    return NullModels("property", a, b, lambda _: torch.from_numpy(properties))


def _redraw_sets(corpus: Corpus, splits: int) -> list[NullModels]:
    """Draw A and B from both halves of several splits, for the measured property.

    Draws 2s and 2s + 1 are of the halves of split s. Empty if a half of a split has no such sets.
    """
    drawn = [corpus.redraw(split) for split in range(1, splits + 1)]
    if any(len(halves) < 2 for halves in drawn):
        return []
    halves = [half for split in drawn for half in split]
    a: list[Positions] = []
    b: list[Positions] = []
    for number in range(len(corpus.pools)):
        a.append([*zip(*(half[number][0] for half in halves), strict=True)])
        sets_b: list[Draws] = [*zip(*(half[number][1] for half in halves), strict=True)]
        is_shared = len({id(members) for members in halves[0][number][1]}) == 1
        b.append([sets_b[0]] * len(sets_b) if is_shared else sets_b)
    return [NullModels("attributes", a, b, None)]


def outcomes_of(corpus: Corpus) -> np.ndarray:
    """Return `Pool.outcomes` of each exchange unit, [exchange units, S]."""
    outcomes = np.empty((len(corpus.exchange.grid), len(corpus.properties)))
    for pool in corpus.pools:
        outcomes[corpus.exchange.unit_of_row[pool.rows]] = pool.outcomes
    return outcomes
