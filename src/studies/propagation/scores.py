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

B = TypeVar("B")  # positions of a set, or of several


class Associations:
    """Association of each target with A against B, averaged over the pools."""

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
        self._association: tuple[int, _Association] | None = None  # number of the last pool, its association

    def add(self, block: SimilarityBlock) -> None:
        """Score the targets of a block in its pool."""
        if self._association is None or self._association[0] != block.pool:
            pool = self._pools[block.pool]
            shortcut = shortcut_is_faster(pool, self._targets, self._corpus)
            if self._measure is DIFFERENCE:  # a single product
                shortcut = self._targets.ndim == self._corpus.ndim == 2
            association = _Association(pool, self._corpus, self._measure, self._protocol, shortcut)
            self._association = block.pool, association
        self._sums[block.targets] += self._association[1].score(block)

    @property
    def scores(self) -> np.ndarray:
        """Return the association with A against B, [N, S]."""
        return np.asarray(self._sums / len(self._pools))


class Outcomes:
    """Outcome of retrieval for each target, averaged over the pools."""

    def __init__(self, targets: int, pools: Sequence[Pool], scorer: Scorer) -> None:
        self._sums = torch.zeros(targets, len(pools[0].a), dtype=torch.float64)
        self._pools, self._scorer = pools, scorer

    def add(self, block: SimilarityBlock) -> None:
        """Score the targets of a block in its pool."""
        self._sums[block.targets] += self._scorer.score(block)

    @property
    def scores(self) -> np.ndarray:
        """Return the outcome of retrieval, [N, S]."""
        return np.asarray(self._sums / len(self._pools))


class _Association:
    """Intrinsic score of targets with the attribute sets of a pool."""

    def __init__(
        self, pool: Pool, corpus: Tensor, measure: IntrinsicMeasure, protocol: ProtocolConfig, shortcut: bool
    ) -> None:
        self._pool, self._corpus, self._measure, self._protocol = pool, corpus, measure, protocol
        self._by_vectors = None
        if shortcut and measure.by_vectors:
            a, b = ([self._item_positions(positions) for positions in side] for side in (pool.a, pool.b))
            self._by_vectors = measure.by_vectors(self._items, a, b, protocol)

    @cached_property
    def _items(self) -> Tensor:
        """Return unit vectors of the items of A and B."""
        return normalise(self._corpus[self._pool.rows[self._pool.attributes]])

    def _item_positions(self, positions: np.ndarray) -> np.ndarray:
        """Convert positions in the pool to positions among the items of A and B."""
        return np.searchsorted(self._pool.attributes, positions)

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return scores [targets, S]; NaN where a target has no score."""
        if self._by_vectors is None:
            return self._by_similarities(block.vectors, block.similarities)
        scores = self._by_vectors(block.vectors)
        if len(undefined := scores.isnan().any(dim=1).nonzero()[:, 0]):
            scores[undefined] = self._by_similarities(block.vectors[undefined])
        return scores

    def _by_similarities(self, vectors: Tensor, similarities: Tensor | None = None) -> Tensor:
        # Without similarities with the entire pool, compute those with the items of A and B.
        convert = self._item_positions if similarities is None else np.asarray
        similarities = cosines(vectors, self._items) if similarities is None else similarities
        scores = torch.empty(len(vectors), len(self._pool.a), dtype=torch.float64)
        for b, columns in group_by_b(self._pool.b):
            a = [convert(self._pool.a[column]) for column in columns]
            scores[:, columns] = score(self._measure, similarities, a, convert(b), self._protocol)
        return scores


def score(
    measure: IntrinsicMeasure, similarities: Tensor, a: Sets, b: np.ndarray, protocol: ProtocolConfig
) -> Tensor:
    """Score targets by their similarities; raise `InputError` if the measure returns another shape."""
    scores, shape = measure.score(similarities, a, b, protocol), (len(similarities), len(a))
    if isinstance(scores, Tensor) and tuple(scores.shape) == shape:
        return scores
    result = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
    raise InputError(
        f"protocol.intrinsic={protocol.intrinsic}: expected a tensor of shape {shape}, a row per target and "
        f"a column per set A, got {result}. Correct its function `score`."
    )


def group_by_b(sets: Sequence[B]) -> Iterator[tuple[B, list[int]]]:
    """Yield each distinct B with the columns of scores that use it, as groups share one B."""
    for b in {id(members): members for members in sets}.values():
        yield b, [column for column, column_b in enumerate(sets) if column_b is b]
