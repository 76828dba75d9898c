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
from src.studies.propagation.null_models import KINDS, PROPERTY, DrawnSets, NullModels
from src.studies.propagation.scores import group_by_b, score_by_similarities
from src.studies.propagation.similarity_blocks import SimilarityBlock
from src.studies.propagation.units import DECIMALS, Stratum, Units

# Maximum number of units of a stratum that are scored under null models.
MAX_SAMPLED = 500
# Maximum number of sampled targets in one multiplication.
MAX_ROWS = 600
# Sets with at least this share of a pool are multiplied as a dense matrix, which is then faster.
MIN_DENSE_SHARE = 0.02


@dataclass(frozen=True)
class NullSets:
    """Sets A and B of R null models, as matrices for `sum_similarities`."""

    a: Tensor  # ones at the pool's items in A [R, M], or the sums of their vectors [R, D]
    b: Tensor  # likewise for B
    a_and_b: Tensor  # sum of the ones for A and for B, [R, M]
    n_a: Tensor  # sizes of A, [R, 1]
    n_b: Tensor  # sizes of B, [R, 1]


@dataclass(frozen=True)
class UnitSample:
    """Sample of the units of one or several strata, which are scored together under null models.

    Attributes:
        strata: positions of the strata.
        columns: column of the scores for each stratum.
        units: [n] positions of the units.
        unit_rows: [n] positions of the units among those of all samples.
        target_rows: [n copies] positions of the units' targets among those of all samples.
        kinds: kinds of null models under which the units are scored.
    """

    strata: list[int]
    columns: list[int]
    units: np.ndarray
    unit_rows: np.ndarray
    target_rows: np.ndarray
    kinds: frozenset[str]


def samples_of(units: Units, strata: Sequence[Stratum], seed: int) -> list[UnitSample]:
    """Sample the units of each stratum; strata with the same units share a sample.

    The stratum `extremes` consists of the extremes of the ratings. As encoded properties have other extremes,
    it is scored over all targets under them.
    """
    everything = np.arange(len(units.frame))
    sources = [
        (index, stratum.rows, KINDS - {PROPERTY} if _is_extremes(stratum) else KINDS)
        for index, stratum in enumerate(strata)
    ]
    sources += [
        (index, everything, frozenset({PROPERTY}))
        for index, stratum in enumerate(strata)
        if _is_extremes(stratum)
    ]
    strata_of_sample: dict[tuple[bytes, frozenset[str]], list[int]] = {}
    for index, rows, kinds in sources:
        sampled = sample_units(units, rows, seed, MAX_SAMPLED)
        strata_of_sample.setdefault((sampled.tobytes(), kinds), []).append(index)
    all_units = _merge_units([np.frombuffer(key, dtype=np.int64) for key, _ in strata_of_sample])
    copies, samples = units.rows.shape[1], []
    for (key, kinds), indices in strata_of_sample.items():
        sampled = np.frombuffer(key, dtype=np.int64)
        unit_rows = np.searchsorted(all_units, sampled)
        target_rows = (unit_rows[:, None] * copies + np.arange(copies)).reshape(-1)
        columns = [strata[index].column for index in indices]
        samples.append(UnitSample(indices, columns, sampled, unit_rows, target_rows, kinds))
    return samples


def _merge_units(units: Sequence[np.ndarray]) -> np.ndarray:
    """Return the positions of the units of all samples, ascending."""
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *units]))


def _is_extremes(stratum: Stratum) -> bool:
    return stratum.also_over_all and stratum.group is None


class NullScores:
    """Both scores of at most 500 units per stratum under null models.

    Similarities of the sampled targets are stored for one pool at a time. Call `compute_rhos` only after
    every block has been added, and scored by `scorer`.
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
        self._samples = samples_of(units, strata, corpus.seed) if null_models else []
        self._copies = units.rows.shape[1]
        self.sampled_units = _merge_units([sample.units for sample in self._samples])
        rows = units.rows[self.sampled_units]
        self.scorer = outcome.scorer(corpus, targets, items, rows)
        self._rows = rows.reshape(-1)
        # Row of each target in the stored similarities, or -1.
        self._row_of_target = np.full(int(units.rows.max()) + 1, -1)
        self._row_of_target[self._rows] = np.arange(len(self._rows))
        self._similarities = torch.empty(0, 0, dtype=torch.float64)
        self._measure = measure
        # (index of the null models, index of the sample, column) -> sums over the pools [R, targets].
        self._intrinsic: dict[tuple[int, int, int], Tensor] = {}

    @property
    def is_needed(self) -> bool:
        """Return whether there are null models; `add` then needs the similarities of every block."""
        return bool(self._samples)

    def add(self, block: SimilarityBlock) -> None:
        """Store the similarities of sampled targets; after the last block of a pool, score them."""
        if not self.is_needed:
            return
        rows = self._row_of_target[block.targets]
        block_rows = torch.from_numpy(np.flatnonzero(rows >= 0))
        if block.targets.start == 0:
            size = len(self._corpus.pools[block.pool_index].rows)
            self._similarities = torch.empty(len(self._rows), size, dtype=torch.float64)
        assert block.similarities is not None
        self._similarities[torch.from_numpy(rows[rows >= 0])] = block.similarities[block_rows]
        if block.is_last and self._measure.by_sums:
            self._score_by_sums(block.pool_index)
        elif block.is_last:
            self._score_set_by_set(block.pool_index)

    def _score_by_sums(self, pool_index: int) -> None:
        """Add the intrinsic scores under every null model in a pool, from sums over A and B."""
        # Scores are shift-invariant, and centred similarities lose less to rounding.
        self._similarities -= self._similarities.mean(dim=1, keepdim=True)
        size = self._similarities.shape[1]
        ones = {id(b): build_indicator(b, size) for nulls in self._null_models for b in nulls.b[pool_index]}
        is_any_dense = any(ones_b.layout == torch.strided for ones_b in ones.values())
        vectors = self._centre_items(pool_index) if is_any_dense else None
        sums = {key: (ones_b, sum_vectors(ones_b, vectors)) for key, ones_b in ones.items()}
        for sample_index, sample in enumerate(self._samples):
            sets = []
            for nulls in self._null_models:
                columns = sample.columns if nulls.kind in sample.kinds else []
                pairs = [(nulls.a[pool_index][column], nulls.b[pool_index][column]) for column in columns]
                sets.append([sets_of(a, b, *sums[id(b)], vectors) for a, b in pairs])
            for start in range(0, len(sample.target_rows), MAX_ROWS):
                self._score_rows(
                    sample_index, slice(start, start + MAX_ROWS), sets, by_vectors=vectors is not None
                )

    def _score_set_by_set(self, pool_index: int) -> None:
        """Add the intrinsic scores under every null model in a pool, one set at a time."""
        for (nulls_index, nulls), (sample_index, sample) in product(
            enumerate(self._null_models), enumerate(self._samples)
        ):
            if nulls.kind not in sample.kinds:
                continue
            similarities = self._similarities[torch.from_numpy(sample.target_rows)]
            for b, positions in group_by_b([nulls.b[pool_index][column] for column in sample.columns]):
                columns = [sample.columns[position] for position in positions]
                for draw, drawn_b in enumerate(b):
                    a = [nulls.a[pool_index][column][draw] for column in columns]
                    scores = score_by_similarities(
                        self._measure, similarities, a, drawn_b, self._corpus.protocol
                    )
                    for column, column_scores in zip(columns, scores.T, strict=True):
                        self._sums(nulls_index, sample_index, column, len(b))[draw] += column_scores

    def _sums(self, nulls_index: int, sample_index: int, column: int, draws: int) -> Tensor:
        """Return a sample's scores summed over the pools so far, [R, targets], to be updated in place."""
        key = nulls_index, sample_index, column
        if key not in self._intrinsic:
            self._intrinsic[key] = torch.zeros(
                draws, len(self._samples[sample_index].target_rows), dtype=torch.float64
            )
        return self._intrinsic[key]

    def _centre_items(self, pool_index: int) -> Tensor | None:
        """Return centred vectors of a pool's items, [M, D]; None if items or targets have several each."""
        if self._targets.ndim > 2 or self._items.ndim > 2:
            return None
        vectors = normalise(self._items[self._corpus.pools[pool_index].rows])
        return vectors - vectors.mean(dim=0)

    def _score_rows(
        self, sample_index: int, rows: slice, sets: list[list[NullSets]], *, by_vectors: bool
    ) -> None:
        """Add the scores of some rows of a sample.

        `sets` holds, for each kind of null models, the sets A and B of the sample's columns.
        """
        sample = self._samples[sample_index]
        sampled_rows = sample.target_rows[rows]
        similarities = self._similarities[torch.from_numpy(sampled_rows)].T.contiguous()
        vectors = normalise(self._targets[self._rows[sampled_rows]]).T.contiguous() if by_vectors else None
        squares = cache(similarities.square)  # computed once, if at all
        assert self._measure.by_sums is not None
        for nulls_index, null_sets in enumerate(sets):
            # Groups may share B, which is then summed once.
            to_b = {id(pair.b): sum_similarities(pair.b, similarities, vectors) for pair in null_sets}
            for column, pair in zip(sample.columns if null_sets else [], null_sets, strict=True):
                to_a = sum_similarities(pair.a, similarities, vectors)
                sum_of_squares = partial(lambda ones: ones @ squares(), pair.a_and_b)
                sums = Sums(to_a, pair.n_a, to_b[id(pair.b)], pair.n_b, sum_of_squares)
                scores = self._measure.by_sums(sums, self._corpus.protocol)
                self._sums(nulls_index, sample_index, column, len(scores))[:, rows] += scores

    def observed_rho(
        self, stratum: int, kind: str, intrinsic: np.ndarray, extrinsic: np.ndarray
    ) -> tuple[float, int]:
        """Return rho of the observed scores on the units of a kind of null models, and the number of units.

        `stratum` is the stratum's position; scores are [units, S]. NaN and 0 without such null models.
        """
        for sample in self._samples:
            if stratum in sample.strata and kind in sample.kinds:
                column = sample.columns[sample.strata.index(stratum)]
                rows = sample.units[~np.isnan(intrinsic[sample.units, column])]
                if not len(rows):
                    return math.nan, 0
                x, y = (scores[rows, column][:, None] for scores in (intrinsic, extrinsic))
                return correlate_columns(x, y, self._units.blocks[rows]).item(), len(rows)
        return math.nan, 0

    def score_outcomes(self, nulls: NullModels, column: int) -> np.ndarray:
        """Return the outcomes of all sampled units under null models, [units, R]."""
        return self.scorer.score_nulls(nulls, column)(np.arange(len(self.sampled_units)))

    def compute_rhos(
        self, intrinsic: np.ndarray, extrinsic: np.ndarray
    ) -> Iterator[tuple[int, str, np.ndarray]]:
        """Yield a stratum's position, a kind of null models and rho under each of these, [R].

        Observed scores are [units, S]; units without an observed intrinsic score are excluded.
        """
        for nulls_index, nulls in enumerate(self._null_models):
            for column in sorted({column for sample in self._samples for column in sample.columns}):
                score_units = None if nulls.outcomes is None else self.scorer.score_nulls(nulls, column)
                for sample_index, sample in enumerate(self._samples):
                    defined = ~np.isnan(intrinsic[sample.units, column])
                    if not (nulls.kind in sample.kinds and defined.any()):
                        continue
                    for stratum, stratum_column in zip(sample.strata, sample.columns, strict=True):
                        if stratum_column == column:
                            x = self._average_by_unit(nulls_index, sample_index, column)
                            # Null models without a permuted property use the observed score, [units, 1].
                            observed = extrinsic[sample.units][:, [column]]
                            y = score_units(sample.unit_rows) if score_units else observed
                            blocks = self._units.blocks[sample.units[defined]]
                            yield stratum, nulls.kind, correlate_columns(x[defined], y[defined], blocks)

    def _average_by_unit(self, nulls_index: int, sample_index: int, column: int) -> np.ndarray:
        """Return the intrinsic scores of a sample's units, [units, R]."""
        scores = (self._intrinsic[nulls_index, sample_index, column] / len(self._corpus.pools)).numpy().T
        return np.asarray(scores.reshape(-1, self._copies, scores.shape[1]).mean(axis=1).round(DECIMALS))


def sample_units(units: Units, rows: np.ndarray, seed: int, count: int) -> np.ndarray:
    """Draw at most `count` units of a stratum, ascending; where blocks are templates, draw words instead."""
    names = units.frame["name" if units.blocks.max(initial=0) else "id"].to_numpy()[rows].astype(str)
    distinct = np.unique(names)
    if len(distinct) <= count:
        return rows
    sampled = np.random.default_rng([seed, len(distinct)]).permutation(len(distinct))[:count]
    return rows[np.isin(names, distinct[sampled])]


def correlate_columns(x: np.ndarray, y: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of each column of x with that column of y, averaged over blocks of units, [R].

    Scores are [units, R], or [units, 1] if all columns are equal.
    """
    rhos = [spearman_columns(x[blocks == block], y[blocks == block]) for block in np.unique(blocks)]
    return np.asarray(np.mean(rhos, axis=0))


def sets_of(a: DrawnSets, b: DrawnSets, ones_b: Tensor, sum_b: Tensor, vectors: Tensor | None) -> NullSets:
    """Build the sets of R null models; `ones_b` and `sum_b` are of B, which several A may share."""
    ones_a = build_indicator(a, ones_b.shape[1], is_dense=ones_b.layout == torch.strided)
    return NullSets(sum_vectors(ones_a, vectors), sum_b, ones_a + ones_b, _sizes(a), _sizes(b))


def _sizes(positions: DrawnSets) -> Tensor:
    return torch.tensor([[len(members)] for members in positions])


def sum_vectors(ones: Tensor, vectors: Tensor | None) -> Tensor:
    """Sum vectors [M, D] over sets, given by ones [R, M]; return the ones if similarities are cheaper to sum.

    The sum of a target's similarities with a set is its similarity with the sum of the set's vectors, unless
    items or targets have several vectors each (`vectors` is None). Vectors are summed, [R, D], if the ones
    are dense and D is less than M.
    """
    if vectors is None or ones.layout != torch.strided or vectors.shape[1] >= len(vectors):
        return ones
    return ones @ vectors


def sum_similarities(sums: Tensor, similarities: Tensor, vectors: Tensor | None) -> Tensor:
    """Sum similarities [M, N] of the pool's items with N targets over R sets, [R, N].

    `sums` is a result of `sum_vectors`; if it has sums of vectors, the targets' `vectors` [D, N] are needed.
    """
    if sums.shape[1] == len(similarities):
        return sums @ similarities
    assert vectors is not None
    return sums @ vectors


def build_indicator(positions: DrawnSets, size: int, is_dense: bool | None = None) -> Tensor:
    """Build a matrix [R, size] with a 1 at each position in R arrays; by default sparse if they are short."""
    count, lengths = len(positions), [len(members) for members in positions]
    columns = torch.from_numpy(np.concatenate([np.sort(members) for members in positions]))
    if is_dense is None:
        is_dense = len(columns) >= MIN_DENSE_SHARE * size * count
    if is_dense:
        ones = torch.zeros(count, size, dtype=torch.float64)
        rows = torch.repeat_interleave(torch.arange(count), torch.tensor(lengths))
        return ones.index_put_((rows, columns), torch.tensor(1.0, dtype=torch.float64))
    starts = torch.from_numpy(np.cumsum([0, *lengths]))
    ones = torch.ones(len(columns), dtype=torch.float64)
    with warnings.catch_warnings():
        # Hide the warning that sparse CSR tensors are in beta.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support")
        return torch.sparse_csr_tensor(starts, columns, ones, size=(count, size), check_invariants=True)
