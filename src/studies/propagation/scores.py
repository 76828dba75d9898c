"""Both scores of each target (Ghate et al. 2025, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from src.metrics import cosines, factors, mean_outcome, sc_eats, sc_eats_by, unit
from src.studies.propagation.attributes import Pool
from src.studies.propagation.similarity_blocks import Look, factored


class Scores:
    """Algorithm 1 (Ghate et al. 2025): both scores of each target, averaged over the pools.

    Args:
        targets, corpus: vectors, as `looks` takes them.
        pools: parts of the corpus, with their attribute sets; their looks come pool by pool.
        ddof: of SC-EAT's standard deviation.
    """

    def __init__(self, targets: Tensor, corpus: Tensor, pools: Sequence[Pool], ddof: int) -> None:
        self._targets, self._corpus, self._pools, self._ddof = targets, corpus, pools, ddof
        self._outcomes = [torch.from_numpy(pool.outcomes) for pool in pools]
        self._intrinsic = torch.zeros(len(targets), len(pools[0].a), dtype=torch.float64)
        self._extrinsic = torch.zeros_like(self._intrinsic)
        self._association: tuple[int, _Association] | None = None

    def see(self, look: Look) -> None:
        """Score the targets of a look in its pool."""
        if self._association is None or self._association[0] != look.number:
            pool = self._pools[look.number]
            by_factors = factored(pool, self._targets, self._corpus)
            self._association = look.number, _Association(pool, self._corpus, self._ddof, by_factors)
        self._intrinsic[look.block] += self._association[1].of(look)
        self._extrinsic[look.block] += mean_outcome(look.nearest, self._outcomes[look.number])

    @property
    def intrinsic(self) -> np.ndarray:
        """[N, S]: SC-EAT with A and B."""
        found: np.ndarray = (self._intrinsic / len(self._pools)).numpy()
        return found

    @property
    def extrinsic(self) -> np.ndarray:
        """[N, S]: mean outcome of the k most similar items."""
        found: np.ndarray = (self._extrinsic / len(self._pools)).numpy()
        return found


class _Association:
    """SC-EAT of any target with the attribute sets of a pool."""

    def __init__(self, pool: Pool, corpus: Tensor, ddof: int, by_factors: bool) -> None:
        self._pool, self._corpus, self._ddof = pool, corpus, ddof
        a, b = ([self._places(one) for one in side] for side in (pool.a, pool.b))
        self._factors = factors(self._items, a, b, ddof) if by_factors else None

    @cached_property
    def _items(self) -> Tensor:
        """Vectors of the items of A and B."""
        return unit(self._corpus[self._pool.rows[self._pool.attributes]])

    def _places(self, positions: np.ndarray) -> np.ndarray:
        """Where they are among the items of A and B."""
        return np.searchsorted(self._pool.attributes, positions)

    def of(self, look: Look) -> Tensor:
        """[targets, S] effect sizes; NaN where all of a target's similarities with A and B are equal."""
        if self._factors is None:
            return self._by_similarities(look.own, look.near)
        found = sc_eats_by(look.own, self._factors)
        if len(untold := found.isnan().any(dim=1).nonzero()[:, 0]):
            found[untold] = self._by_similarities(look.own[untold])
        return found

    def _by_similarities(self, own: Tensor, near: Tensor | None = None) -> Tensor:
        places = self._places if near is None else np.asarray
        near = cosines(own, self._items) if near is None else near
        found = torch.empty(len(own), len(self._pool.a), dtype=torch.float64)
        for b, contents in _shared(self._pool.b):
            a = [places(self._pool.a[content]) for content in contents]
            found[:, contents] = sc_eats(near, a, places(b), self._ddof)
        return found


def _shared(sets: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Each B, and the contents whose it is: groups share one."""
    for b in {id(one): one for one in sets}.values():
        yield b, [content for content, own in enumerate(sets) if own is b]
