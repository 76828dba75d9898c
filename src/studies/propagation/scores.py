"""Compute both scores of each target (Ghate et al. 2025, Algorithm 1)."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError
from src.metrics import cosines, normalise
from src.studies.propagation.attributes import Pool
from src.studies.propagation.cosine_difference import DIFFERENCE
from src.studies.propagation.measures import IntrinsicMeasure, Scorer, Sets
from src.studies.propagation.similarity_blocks import SimilarityBlock, shortcut_is_faster

B = TypeVar("B")  # a set B, or R sets B of null models


class Associations:
    """Intrinsic scores [N, S] of N targets, averaged over the pools of the corpus.

    S is the number of the corpus's properties: valence alone, or each group; a pool is the corpus, or its
    sentences of a template (`attributes.Pool`). `add` receives every block; scores are computed from its
    `vectors` if the measure's shortcut is faster or the block has no `similarities`, else from its
    `similarities`.
    """

    def __init__(
        self,
        targets: Tensor,
        corpus: Tensor,
        pools: Sequence[Pool],
        measure: IntrinsicMeasure,
        protocol: ProtocolConfig,
    ) -> None:
        self._targets, self._corpus, self._pools = targets, corpus, pools
        self._measure, self._protocol = measure, protocol
        self._sums = torch.zeros(len(targets), len(pools[0].a), dtype=torch.float64)
        self._pool_scorer: tuple[int, _PoolScorer] | None = None  # index of the current pool, its scorer

    def add(self, block: SimilarityBlock) -> None:
        """Score the targets of a block in its pool."""
        if self._pool_scorer is None or self._pool_scorer[0] != block.pool_index:
            pool = self._pools[block.pool_index]
            shortcut = shortcut_is_faster(pool, self._targets, self._corpus)
            if self._measure is DIFFERENCE:  # its shortcut is a single product
                shortcut = self._targets.ndim == self._corpus.ndim == 2
            scorer = _PoolScorer(pool, self._corpus, self._measure, self._protocol, shortcut)
            self._pool_scorer = block.pool_index, scorer
        self._sums[block.targets] += self._pool_scorer[1].score(block)

    @property
    def scores(self) -> np.ndarray:
        """Return the intrinsic scores, [N, S]."""
        return np.asarray(self._sums / len(self._pools))


class Outcomes:
    """Extrinsic scores [N, S], averaged over the pools of the corpus.

    `add` receives every block; an outcome is computed from its `nearest`, or, if nothing is retrieved, from
    its `vectors`.
    """

    def __init__(self, n_targets: int, pools: Sequence[Pool], scorer: Scorer) -> None:
        self._sums = torch.zeros(n_targets, len(pools[0].a), dtype=torch.float64)
        self._pools, self._scorer = pools, scorer

    def add(self, block: SimilarityBlock) -> None:
        """Score the targets of a block in its pool."""
        self._sums[block.targets] += self._scorer.score(block)

    @property
    def scores(self) -> np.ndarray:
        """Return the extrinsic scores, [N, S]."""
        return np.asarray(self._sums / len(self._pools))


class _PoolScorer:
    """Intrinsic measure with the attribute sets of a pool: A and B of each of S properties."""

    def __init__(
        self, pool: Pool, corpus: Tensor, measure: IntrinsicMeasure, protocol: ProtocolConfig, shortcut: bool
    ) -> None:
        self._pool, self._corpus, self._measure, self._protocol = pool, corpus, measure, protocol
        self._by_vectors = None
        if shortcut and measure.by_vectors:
            a, b = ([self._map_to_items(positions) for positions in sets] for sets in (pool.a, pool.b))
            self._by_vectors = measure.by_vectors(self._items, a, b, protocol)

    @cached_property
    def _items(self) -> Tensor:
        """Return the unit vectors of the items of A and B, [M, D] or [M, Q, D]."""
        return normalise(self._corpus[self._pool.rows[self._pool.attributes]])

    def _map_to_items(self, positions: np.ndarray) -> np.ndarray:
        """Convert positions in the pool to positions among the items of A and B."""
        return np.searchsorted(self._pool.attributes, positions)

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return the scores of a block's targets, [targets, S]; NaN where undefined."""
        if self._by_vectors is None:
            return self._score_without_shortcut(block.vectors, block.similarities)
        scores = self._by_vectors(block.vectors)
        # NaN: the shortcut cannot score these targets.
        if len(needs_similarities := scores.isnan().any(dim=1).nonzero()[:, 0]):
            scores[needs_similarities] = self._score_without_shortcut(block.vectors[needs_similarities])
        return scores

    def _score_without_shortcut(self, vectors: Tensor, similarities: Tensor | None = None) -> Tensor:
        # Without the pool's similarities, compute those with the items of A and B only.
        convert = self._map_to_items if similarities is None else np.asarray
        similarities = cosines(vectors, self._items) if similarities is None else similarities
        scores = torch.empty(len(vectors), len(self._pool.a), dtype=torch.float64)
        for b, columns in group_by_b(self._pool.b):
            a = [convert(self._pool.a[column]) for column in columns]
            scores[:, columns] = score_by_similarities(
                self._measure, similarities, a, convert(b), self._protocol
            )
        return scores


def score_by_similarities(
    measure: IntrinsicMeasure, similarities: Tensor, a: Sets, b: np.ndarray, protocol: ProtocolConfig
) -> Tensor:
    """Return scores [N, S] of S sets A from similarities [N, M]; raise `InputError` for another shape."""
    scores, shape = measure.score(similarities, a, b, protocol), (len(similarities), len(a))
    if isinstance(scores, Tensor) and tuple(scores.shape) == shape:
        return scores
    result = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
    raise InputError(
        f"protocol.intrinsic={protocol.intrinsic}: expected a tensor of shape {shape} (targets, sets A), "
        f"got {result}. Correct the measure's function `score`."
    )


def group_by_b(b_of_column: Sequence[B]) -> Iterator[tuple[B, list[int]]]:
    """Yield each B with the columns of scores that use this object; groups may share one B."""
    for b in {id(members): members for members in b_of_column}.values():
        yield b, [column for column, column_b in enumerate(b_of_column) if column_b is b]
