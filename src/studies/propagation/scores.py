"""Both scores of each target (Ghate et al. 2025, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError
from src.metrics import cosines, unit
from src.studies.propagation.attributes import Pool
from src.studies.propagation.measures import IntrinsicMeasure, Scorer
from src.studies.propagation.similarity_blocks import Look, factored


class Scores:
    """Algorithm 1 (Ghate et al. 2025): both scores of each target, averaged over the pools.

    Args:
        targets, corpus: vectors, as `looks` takes them.
        pools: parts of the corpus, with their attribute sets; their looks come pool by pool.
        measure: intrinsic score.
        scorer: extrinsic score.
        protocol: choices of the measure.
    """

    def __init__(
        self,
        targets: Tensor,
        corpus: Tensor,
        pools: Sequence[Pool],
        measure: IntrinsicMeasure,
        scorer: Scorer,
        protocol: ProtocolConfig,
    ) -> None:
        self._targets, self._corpus, self._pools = targets, corpus, pools
        self._measure, self._scorer, self._protocol = measure, scorer, protocol
        self._intrinsic = torch.zeros(len(targets), len(pools[0].a), dtype=torch.float64)
        self._extrinsic = torch.zeros_like(self._intrinsic)
        self._association: tuple[int, _Association] | None = None

    def see(self, look: Look) -> None:
        """Score the targets of a look in its pool."""
        if self._association is None or self._association[0] != look.number:
            pool = self._pools[look.number]
            shortcut = bool(self._measure.by_vectors) and factored(pool, self._targets, self._corpus)
            found = _Association(pool, self._corpus, self._measure, self._protocol, shortcut)
            self._association = look.number, found
        self._intrinsic[look.block] += self._association[1].of(look)
        self._extrinsic[look.block] += self._scorer.see(look)

    @property
    def intrinsic(self) -> np.ndarray:
        """[N, S]: association with A against B."""
        found: np.ndarray = (self._intrinsic / len(self._pools)).numpy()
        return found

    @property
    def extrinsic(self) -> np.ndarray:
        """[N, S]: what comes up."""
        found: np.ndarray = (self._extrinsic / len(self._pools)).numpy()
        return found


class _Association:
    """Intrinsic score of any target with the attribute sets of a pool."""

    def __init__(
        self, pool: Pool, corpus: Tensor, measure: IntrinsicMeasure, protocol: ProtocolConfig, shortcut: bool
    ) -> None:
        self._pool, self._corpus, self._measure, self._protocol = pool, corpus, measure, protocol
        self._by_vectors = None
        if shortcut and measure.by_vectors:
            a, b = ([self._places(one) for one in side] for side in (pool.a, pool.b))
            self._by_vectors = measure.by_vectors(self._items, a, b, protocol)

    @cached_property
    def _items(self) -> Tensor:
        """Vectors of the items of A and B."""
        return unit(self._corpus[self._pool.rows[self._pool.attributes]])

    def _places(self, positions: np.ndarray) -> np.ndarray:
        """Where they are among the items of A and B."""
        return np.searchsorted(self._pool.attributes, positions)

    def of(self, look: Look) -> Tensor:
        """[targets, S]; NaN where a target has no score."""
        if self._by_vectors is None:
            return self._by_similarities(look.own, look.near)
        found = self._by_vectors(look.own)
        if len(untold := found.isnan().any(dim=1).nonzero()[:, 0]):
            found[untold] = self._by_similarities(look.own[untold])
        return found

    def _by_similarities(self, own: Tensor, near: Tensor | None = None) -> Tensor:
        places = self._places if near is None else np.asarray
        near = cosines(own, self._items) if near is None else near
        found = torch.empty(len(own), len(self._pool.a), dtype=torch.float64)
        for b, contents in shared(self._pool.b):
            a = [places(self._pool.a[content]) for content in contents]
            found[:, contents] = scored(self._measure, near, a, places(b), self._protocol)
        return found


def scored(
    measure: IntrinsicMeasure,
    near: Tensor,
    a: Sequence[np.ndarray],
    b: np.ndarray,
    protocol: ProtocolConfig,
) -> Tensor:
    """Score targets by their similarities; see `IntrinsicMeasure.score`.

    Raises:
        InputError: the measure gives something of another shape.
    """
    scores, wanted = measure.score(near, a, b, protocol), (len(near), len(a))
    if isinstance(scores, Tensor) and tuple(scores.shape) == wanted:
        return scores
    given = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
    raise InputError(
        f"protocol.intrinsic={protocol.intrinsic}: expected a tensor of shape {wanted}, a row per target and "
        f"a column per set A, got {given}. Correct its function `score`."
    )


def shared(sets: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Each B, and the contents whose it is: groups share one."""
    for b in {id(one): one for one in sets}.values():
        yield b, [content for content, own in enumerate(sets) if own is b]
