"""Score a sample of units under null models (docs/methods.md, section 6.4)."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np
import torch
from torch import Tensor

from src.metrics import normalise, spearman_columns
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.measures import ExtrinsicOutcome, IntrinsicMeasure, Sums
from src.studies.propagation.null_models import Draws, NullModels
from src.studies.propagation.scores import group_by_b, score
from src.studies.propagation.similarity_blocks import SimilarityBlock
from src.studies.propagation.units import DECIMALS, Stratum, Units

# Maximum number of units of a stratum on which the placebo is computed.
MAX_SAMPLED = 500
# Number of sampled targets in one multiplication.
ROWS = 600
# Sets of at least this share of a pool are multiplied as a dense matrix, which is faster there.
DENSE = 0.02


@dataclass(frozen=True)
class NullSets:
    """Attribute sets A and B of R null models, to be multiplied with similarities (`sum_similarities`)."""

    a: Tensor  # ones at the pool's items that are in A [R, M], or the sums of their vectors [R, D]
    b: Tensor  # the same for B
    a_and_b: Tensor  # [R, M] ones at the items of A plus ones at the items of B
    n_a: Tensor  # [R, 1] sizes
    n_b: Tensor


@dataclass(frozen=True)
class Case:
    """Strata of the same units, whose similarities are processed together.

    Attributes:
        strata: positions of the strata.
        columns: column of the scores, for each stratum.
        units: [n] positions of the sampled units.
        unit_rows: [n] their rows among all sampled units.
        rows: [n copies] rows of their targets (images or sentences) among all sampled targets, unit by unit.
        over_all: whether only encoded properties, or all but these, are drawn; None: all null models.
    """

    strata: list[int]
    columns: list[int]
    units: np.ndarray
    unit_rows: np.ndarray
    rows: np.ndarray
    over_all: bool | None = None

    def uses(self, kind: str) -> bool:
        """Return whether null models of a kind are drawn on these units."""
        return self.over_all is None or self.over_all == (kind == "property")


def cases_of(units: Units, strata: Sequence[Stratum], seed: int) -> list[Case]:
    """Group strata by their units.

    The extremes of valence are those of the ratings, not of a draw: encoded properties are compared over all
    targets instead.
    """
    everything = np.arange(len(units.frame))
    members = [(number, stratum.rows, stratum) for number, stratum in enumerate(strata)]
    members += [
        (number, everything, stratum) for number, stratum in enumerate(strata) if _is_extremes(stratum)
    ]
    strata_of_sample: dict[tuple[bytes, bool | None], list[int]] = {}
    for place, (number, rows, stratum) in enumerate(members):
        over_all = place >= len(strata) if _is_extremes(stratum) else None
        sample = sample_units(units, rows, seed, MAX_SAMPLED)
        strata_of_sample.setdefault((sample.tobytes(), over_all), []).append(number)
    samples = [np.frombuffer(key, dtype=np.int64) for key, _ in strata_of_sample]
    sampled, copies = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *samples])), units.rows.shape[1]
    cases = []
    for sample, ((_, over_all), numbers) in zip(samples, strata_of_sample.items(), strict=True):
        unit_rows = np.searchsorted(sampled, sample)
        rows = (unit_rows[:, None] * copies + np.arange(copies)).reshape(-1)
        cases.append(Case(numbers, [strata[n].column for n in numbers], sample, unit_rows, rows, over_all))
    return cases


def _is_extremes(stratum: Stratum) -> bool:
    return stratum.also_over_all and stratum.group is None


class Sample:
    """Both scores of at most 500 units per stratum under null models.

    Similarities of the sampled targets are stored for one pool at a time. Before `rhos`, every block must
    have been added and scored by `scorer`.
    """

    def __init__(
        self,
        units: Units,
        strata: Sequence[Stratum],
        corpus: Corpus,
        null_models: list[NullModels],
        targets: Tensor,
        items: Tensor,
        measure: IntrinsicMeasure,
        outcome: ExtrinsicOutcome,
    ) -> None:
        self._units, self._corpus, self._null_models = units, corpus, null_models
        self._targets, self._items = targets, items
        self.cases = cases_of(units, strata, corpus.seed) if null_models else []
        self._copies = units.rows.shape[1]
        # Positions of all sampled units, ascending.
        self.units = np.unique(np.concatenate([np.empty(0, dtype=int), *(c.units for c in self.cases)]))
        rows = units.rows[self.units]
        self.scorer = outcome.scorer(corpus, targets, items, rows)
        self._rows = rows.reshape(-1)
        # Maps each target to its row in the stored similarities.
        self._row_of_target = np.full(int(units.rows.max()) + 1, -1)
        self._row_of_target[self._rows] = np.arange(len(self._rows))
        self._similarities = torch.empty(0, 0, dtype=torch.float64)
        self._measure = measure
        # (number of the null models, number of the case, column) -> sums over the pools [R, targets].
        self._intrinsic: dict[tuple[int, int, int], Tensor] = {}

    def add(self, block: SimilarityBlock) -> None:
        """Store the similarities of sampled targets; after the last block of a pool, score them."""
        if not self.cases:
            return
        rows = self._row_of_target[block.targets]
        block_rows = torch.from_numpy(np.flatnonzero(rows >= 0))
        if block.targets.start == 0:
            size = len(self._corpus.pools[block.pool].rows)
            self._similarities = torch.empty(len(self._rows), size, dtype=torch.float64)
        assert block.similarities is not None
        self._similarities[torch.from_numpy(rows[rows >= 0])] = block.similarities[block_rows]
        if block.last and self._measure.by_sums:
            self._score_by_sums(block.pool)
        elif block.last:
            self._score_singly(block.pool)

    def _score_by_sums(self, pool: int) -> None:
        """Compute intrinsic scores under every null model in a pool."""
        # Scores are shift-invariant, and centred similarities lose less to rounding.
        self._similarities -= self._similarities.mean(dim=1, keepdim=True)
        size = self._similarities.shape[1]
        ones = {id(b): indicator(b, size) for nulls in self._null_models for b in nulls.b[pool]}
        vectors = self._centred(pool) if any(b.layout == torch.strided for b in ones.values()) else None
        sums = {key: (b, sum_vectors(b, vectors)) for key, b in ones.items()}
        for index, case in enumerate(self.cases):
            sets = []
            for nulls in self._null_models:
                columns = case.columns if case.uses(nulls.kind) else []
                pairs = [(nulls.a[pool][column], nulls.b[pool][column]) for column in columns]
                sets.append([sets_of(a, b, *sums[id(b)], vectors) for a, b in pairs])
            for start in range(0, len(case.rows), ROWS):
                self._score_rows(index, slice(start, start + ROWS), sets, by_vectors=vectors is not None)

    def _score_singly(self, pool: int) -> None:
        """Compute intrinsic scores under every null model in a pool, set by set."""
        for (number, nulls), (index, case) in product(enumerate(self._null_models), enumerate(self.cases)):
            if not case.uses(nulls.kind):
                continue
            similarities = self._similarities[torch.from_numpy(case.rows)]
            for b, positions in group_by_b([nulls.b[pool][column] for column in case.columns]):
                columns = [case.columns[position] for position in positions]
                for draw, drawn_b in enumerate(b):
                    a = [nulls.a[pool][column][draw] for column in columns]
                    scores = score(self._measure, similarities, a, drawn_b, self._corpus.protocol)
                    for column, column_scores in zip(columns, scores.T, strict=True):
                        self._sums(number, index, column, len(b))[draw] += column_scores

    def _sums(self, number: int, index: int, column: int, draws: int) -> Tensor:
        """Return the sums of scores over the pools so far, [R, sampled targets of a case]."""
        key = number, index, column
        if key not in self._intrinsic:
            self._intrinsic[key] = torch.zeros(draws, len(self.cases[index].rows), dtype=torch.float64)
        return self._intrinsic[key]

    def _centred(self, pool: int) -> Tensor | None:
        """Return centred vectors of a pool's items, [M, D]; None where an item or target has several."""
        if self._targets.ndim > 2 or self._items.ndim > 2:
            return None
        vectors = normalise(self._items[self._corpus.pools[pool].rows])
        return vectors - vectors.mean(dim=0)

    def _score_rows(self, index: int, rows: slice, sets: list[list[NullSets]], *, by_vectors: bool) -> None:
        """Add the scores of some rows of a case; `sets` are by null models, then by column of the case."""
        case = self.cases[index]
        sampled_rows = case.rows[rows]
        similarities = self._similarities[torch.from_numpy(sampled_rows)].T.contiguous()
        vectors = normalise(self._targets[self._rows[sampled_rows]]).T.contiguous() if by_vectors else None
        squares = cache(similarities.square)  # computed once, if at all
        assert self._measure.by_sums is not None
        for number, null_sets in enumerate(sets):
            # Groups may share B: it is summed once.
            to_b = {id(pair.b): sum_similarities(pair.b, similarities, vectors) for pair in null_sets}
            for column, pair in zip(case.columns if null_sets else [], null_sets, strict=True):
                to_a = sum_similarities(pair.a, similarities, vectors)
                sum_of_squares = partial(lambda ones: ones @ squares(), pair.a_and_b)
                sums = Sums(to_a, pair.n_a, to_b[id(pair.b)], pair.n_b, sum_of_squares)
                scores = self._measure.by_sums(sums, self._corpus.protocol)
                self._sums(number, index, column, len(scores))[:, rows] += scores

    def observed(
        self, stratum: int, kind: str, intrinsic: np.ndarray, extrinsic: np.ndarray
    ) -> tuple[float, int]:
        """Return rho of measured scores [units, S] on the units of a kind of null models, and their count."""
        for case in self.cases:
            if stratum in case.strata and case.uses(kind):
                column = case.columns[case.strata.index(stratum)]
                rows = case.units[~np.isnan(intrinsic[case.units, column])]
                x, y = (scores[rows, column][:, None] for scores in (intrinsic, extrinsic))
                return correlate(x, y, self._units.blocks[rows]).item() if len(rows) else math.nan, len(rows)
        return math.nan, 0

    def null_outcomes(self, nulls: NullModels, column: int) -> np.ndarray:
        """Return outcomes of all sampled units under null models, [units, R]."""
        return self.scorer.score_nulls(nulls, column)(np.arange(len(self.units)))

    def rhos(self, intrinsic: np.ndarray, extrinsic: np.ndarray) -> Iterator[tuple[int, str, np.ndarray]]:
        """Yield the stratum's position, the kind of null models and rho [R], for each stratum and kind.

        Measured scores are [units, S]; a unit without an intrinsic score is excluded everywhere.
        """
        for number, nulls in enumerate(self._null_models):
            for column in sorted({column for case in self.cases for column in case.columns}):
                outcomes = None if nulls.outcomes is None else self.scorer.score_nulls(nulls, column)
                for index, case in enumerate(self.cases):
                    defined = ~np.isnan(intrinsic[case.units, column])
                    if not (case.uses(nulls.kind) and defined.any()):
                        continue
                    for stratum, stratum_column in zip(case.strata, case.columns, strict=True):
                        if stratum_column == column:
                            x = self._unit_scores(number, index, column)
                            # Null models without outcomes use the measured score, [units, 1].
                            measured = extrinsic[case.units][:, [column]]
                            y = outcomes(case.unit_rows) if outcomes else measured
                            blocks = self._units.blocks[case.units[defined]]
                            yield stratum, nulls.kind, correlate(x[defined], y[defined], blocks)

    def _unit_scores(self, number: int, index: int, column: int) -> np.ndarray:
        """Return intrinsic scores of the sampled units, [units, R]."""
        scores = (self._intrinsic[number, index, column] / len(self._corpus.pools)).numpy().T
        return np.asarray(scores.reshape(-1, self._copies, scores.shape[1]).mean(axis=1).round(DECIMALS))


def sample_units(units: Units, rows: np.ndarray, seed: int, count: int) -> np.ndarray:
    """Draw at most `count` units of a stratum, ascending; units of a template are drawn by word."""
    names = units.frame["name" if units.blocks.max(initial=0) else "id"].to_numpy()[rows].astype(str)
    distinct = np.unique(names)
    if len(distinct) <= count:
        return rows
    drawn = np.random.default_rng([seed, len(distinct)]).permutation(len(distinct))[:count]
    return rows[np.isin(names, distinct[drawn])]


def correlate(x: np.ndarray, y: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of each column of x and y, [R]; the mean over blocks where there are several.

    Scores are [units, R], or [units, 1] where they are equal in all columns.
    """
    rhos = [spearman_columns(x[blocks == block], y[blocks == block]) for block in np.unique(blocks)]
    return np.asarray(np.mean(rhos, axis=0))


def sets_of(a: Draws, b: Draws, ones_b: Tensor, sum_b: Tensor, vectors: Tensor | None) -> NullSets:
    """Build sets from R arrays of positions and, as several A may share a B, the ones and the sum of B."""
    ones_a = indicator(a, ones_b.shape[1], is_dense=ones_b.layout == torch.strided)
    return NullSets(sum_vectors(ones_a, vectors), sum_b, ones_a + ones_b, _sizes(a), _sizes(b))


def _sizes(positions: Draws) -> Tensor:
    return torch.tensor([[len(each)] for each in positions])


def sum_vectors(ones: Tensor, vectors: Tensor | None) -> Tensor:
    """Sum vectors [M, D] over dense sets of ones [R, M] if D is less than M; otherwise return the ones.

    The sum of a target's similarities with a set is its similarity with the sum of the set's vectors, unless
    items or targets have several vectors each (`vectors` is None).
    """
    if vectors is None or ones.layout != torch.strided or vectors.shape[1] >= len(vectors):
        return ones
    return ones @ vectors


def sum_similarities(sums: Tensor, similarities: Tensor, vectors: Tensor | None) -> Tensor:
    """Sum similarities [M, N] of the pool's items with N targets over the result of `sum_vectors`, [R, N].

    Vectors of the targets, [D, N], are needed where sums are of vectors.
    """
    if sums.shape[1] == len(similarities):
        return sums @ similarities
    assert vectors is not None
    return sums @ vectors


def indicator(positions: Draws, size: int, is_dense: bool | None = None) -> Tensor:
    """Build the matrix [R, size] with a 1 at each position in R arrays; by default sparse for few."""
    count, lengths = len(positions), [len(each) for each in positions]
    columns = torch.from_numpy(np.concatenate([np.sort(each) for each in positions]))
    if is_dense is None:
        is_dense = len(columns) >= DENSE * size * count
    if is_dense:
        ones = torch.zeros(count, size, dtype=torch.float64)
        rows = torch.repeat_interleave(torch.arange(count), torch.tensor(lengths))
        return ones.index_put_((rows, columns), torch.tensor(1.0, dtype=torch.float64))
    starts = torch.from_numpy(np.cumsum([0, *lengths]))
    ones = torch.ones(len(columns), dtype=torch.float64)
    with warnings.catch_warnings():
        # Users need no warning that sparse CSR tensors are in beta.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support")
        return torch.sparse_csr_tensor(starts, columns, ones, size=(count, size), check_invariants=True)
