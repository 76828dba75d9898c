"""Build the null models of an experiment: permuted or random properties, or other sets A and B.

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

# Kinds of null models, as in draws.parquet: permutations of the property, encoded properties, and other sets
# A and B for the observed property.
PLACEBO, PROPERTY, ATTRIBUTES = "placebo", "property", "attributes"
KINDS = frozenset({PLACEBO, PROPERTY, ATTRIBUTES})
# A set A or B of R null models: positions within a pool, [R, n] or arrays of different lengths.
DrawnSets = np.ndarray | Sequence[np.ndarray]
SetsOfPool = Sequence[DrawnSets]  # for each of the `Corpus.properties`


@dataclass(frozen=True)
class NullModels:
    """R null models of a kind: their sets A and B, and their property.

    `outcomes` maps a column of the scores to the property of the exchange units, [exchange units, R]; None:
    the observed property.
    """

    kind: str  # one of `KINDS`
    a: Sequence[SetsOfPool]  # A for each pool
    b: Sequence[SetsOfPool]  # B for each pool
    outcomes: Callable[[int], Tensor] | None


@dataclass(frozen=True)
class NullExperiment:
    """Null models of an experiment.

    Attributes:
        null_models: null models of each kind that the protocol asks for and the corpus allows.
        columns: columns of every analysis: `clusters` of the corpus, R² of ratings and encoded properties.
        refusals: property of the corpus (None: valence) -> reason why it is not permuted.
        notes: remarks for readers of the numbers.
    """

    null_models: list[NullModels]
    columns: dict[str, Any]
    refusals: dict[str | None, str]
    notes: list[str]


def draw_null_models(corpus: Corpus, vectors: Tensor) -> NullExperiment:
    """Draw the null models of an experiment on a corpus with vectors [M, D] or [M, Q, D]."""
    protocol, carries_valence = corpus.protocol, corpus.properties == [None]
    null_models, notes = [], []
    columns: dict[str, Any] = {"clusters": corpus.exchange.n_clusters}
    reasons = {name: corpus.exchange.explain_refusal(name) for name in corpus.properties}
    refusals = {name: reason for name, reason in reasons.items() if reason}
    if protocol.placebo:
        for reason in dict.fromkeys(refusals.values()):
            names = [name for name in refusals if refusals[name] == reason]
            scope = (
                "" if carries_valence or len(names) == len(reasons) else f" of {', '.join(map(str, names))}"
            )
            how = "within sets" if corpus.exchange.factors[0].people is not None else "by cluster"
            notes.append(f"no placebo{scope}, since {reason} ({corpus.table.role} are exchanged {how})")
        if len(refusals) < len(reasons):
            null_models.append(_build_placebo(corpus, corpus.exchange.draw_permutations(protocol.placebo)))
    # With held-out attributes, another property would remove other items from the corpus.
    if carries_valence and not refusals and protocol.property_draws and protocol.attributes != HELD_OUT:
        properties = _draw_encoded(corpus, vectors)
        columns |= {"property_r2": properties.r2, "property_r2_draws": properties.r2_draws}
        if properties.reason:
            notes.append(f"no property placebo, since {properties.reason}")
        else:
            null_models.append(_build_property_nulls(corpus, properties.values))
    if protocol.attribute_draws:
        redrawn = _build_attribute_nulls(corpus, protocol.attribute_draws)
        null_models += redrawn
        if not redrawn:
            notes.append(f"no sd_attributes, since half of the {corpus.table.role} are too few for A and B")
    return NullExperiment(null_models, columns, refusals, notes)


def _build_placebo(corpus: Corpus, permutations: np.ndarray) -> NullModels:
    """Build the null models of permutations π_r: A_r = π_r(A), B_r = π_r(B), y_r = y∘π_r⁻¹."""
    a: list[SetsOfPool] = []
    b: list[SetsOfPool] = []
    for pool in corpus.pools:
        position_of_row = np.full(len(corpus.table.frame), -1)
        position_of_row[pool.rows] = np.arange(len(pool.rows))
        # Groups that share B also share its permuted array: `NullScores` sums each array once.
        cache: dict[int, np.ndarray] = {}
        for sets, permuted in ((pool.a, a), (pool.b, b)):
            for members in sets:
                if id(members) not in cache:
                    rows = corpus.exchange.permute_rows(pool.rows[members], permutations)
                    cache[id(members)] = position_of_row[rows]
            permuted.append([cache[id(members)] for members in sets])
    inverse, outcomes = np.empty_like(permutations), outcomes_of(corpus)
    units = np.arange(permutations.shape[1], dtype=permutations.dtype)
    np.put_along_axis(inverse, permutations, units[None], axis=1)
    return NullModels(PLACEBO, a, b, lambda column: torch.from_numpy(outcomes[:, column][inverse.T]))


def _draw_encoded(corpus: Corpus, vectors: Tensor) -> EncodedProperties:
    """Draw properties that the vectors predict as well as the ratings."""
    exchange = corpus.exchange
    row_vectors, copies = pool_vectors(vectors), torch.from_numpy(exchange.grid.T)
    # Add one template at a time: all at once would take as much memory as the vectors.
    means = torch.zeros(len(exchange.grid), row_vectors.shape[1], dtype=torch.float64)
    for rows in copies:
        means += row_vectors[rows] / len(copies)
    permutations = exchange.draw_permutations(corpus.protocol.property_draws)
    (factor,), ratings = exchange.factors, outcomes_of(corpus)[:, 0]
    return encoded_properties.draw_encoded_properties(
        means.numpy(), ratings, factor.clusters, permutations, exchange.seed
    )


def _build_property_nulls(corpus: Corpus, properties: np.ndarray) -> NullModels:
    """Build the null models of properties [exchange units, R], with their extremes as A and B."""
    exchange, n = corpus.exchange, corpus.protocol.extremes
    # A stable sort leaves equal values in the order of the units' names.
    order = np.argsort(properties, axis=0, kind="stable").T
    a, b = [], []
    for pool in corpus.pools:
        position_of_unit = np.empty(len(exchange.grid), dtype=np.int64)
        position_of_unit[exchange.unit_of_row[pool.rows]] = np.arange(len(pool.rows))
        a.append([position_of_unit[order[:, -n:]]])
        b.append([position_of_unit[order[:, :n]]])
    return NullModels(PROPERTY, a, b, lambda _: torch.from_numpy(properties))


def _build_attribute_nulls(corpus: Corpus, splits: int) -> list[NullModels]:
    """Build null models with A and B from both halves of several splits, for the observed property.

    Draws 2s and 2s + 1 are from the halves of split s + 1. Empty if a half of any split is too small.
    """
    halves_by_split = [corpus.redraw(split) for split in range(1, splits + 1)]
    if any(len(halves) < 2 for halves in halves_by_split):
        return []
    halves = [half for split_halves in halves_by_split for half in split_halves]
    a: list[SetsOfPool] = []
    b: list[SetsOfPool] = []
    for pool in range(len(corpus.pools)):
        a.append([*zip(*(half[pool][0] for half in halves), strict=True)])
        sets_b: list[DrawnSets] = [*zip(*(half[pool][1] for half in halves), strict=True)]
        is_shared = len({id(members) for members in halves[0][pool][1]}) == 1
        b.append([sets_b[0]] * len(sets_b) if is_shared else sets_b)
    return [NullModels(ATTRIBUTES, a, b, None)]


def outcomes_of(corpus: Corpus) -> np.ndarray:
    """Return `Pool.outcomes` of each exchange unit, [exchange units, S]."""
    outcomes = np.empty((len(corpus.exchange.grid), len(corpus.properties)))
    for pool in corpus.pools:
        outcomes[corpus.exchange.unit_of_row[pool.rows]] = pool.outcomes
    return outcomes
