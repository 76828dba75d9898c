"""The pass over all similarities of targets and corpus, block by block: nothing of it is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src.experiments.attributes import Pool
from src.metrics import cosines, mean_outcome, retrieved, sc_eats, unit

# Similarities held at once: 25 MB. Fewer targets at a time multiply slower; what is larger than 32 MB
# glibc asks the kernel for each time anew.
BLOCK = 3 * 2**20


@dataclass(frozen=True)
class Look:
    """Some targets beside a whole pool.

    Attributes:
        number: of the pool.
        block: which targets.
        near: their similarities [targets, M] with the pool's items.
        nearest: [targets, k] positions within the pool of what is retrieved, ascending.
        last: whether these are the pool's last targets.
    """

    number: int
    block: slice
    near: Tensor
    nearest: Tensor
    last: bool


def looks(targets: Tensor, corpus: Tensor, pools: Sequence[Pool]) -> Iterator[Look]:
    """Every target beside every pool.

    Args:
        targets, corpus: unit vectors, [N, D] or [N, Q, D].
        pools: parts of the corpus.
    """
    for number, pool in enumerate(pools):
        # Once per pool: done for each block it would take longer than the product.
        items = unit(corpus[pool.rows])
        kept = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
        for block in _blocks(targets, len(items)):
            near = cosines(unit(targets[block]), items)
            nearest = retrieved(near if kept is None else near[:, kept], pool.k)
            last = block.stop >= len(targets)
            yield Look(number, block, near, nearest if kept is None else kept[nearest], last)


def _blocks(targets: Tensor, items: int) -> Iterator[slice]:
    size = max(1, BLOCK // (items * math.prod(targets.shape[1:-1])))
    return (slice(start, start + size) for start in range(0, len(targets), size))


class Scores:
    """Algorithm 1 (Ghate et al. 2025): both scores of each target, averaged over the pools.

    Args:
        count: number of targets.
        pools: parts of the corpus, with their attribute sets.
        ddof: of SC-EAT's standard deviation.
    """

    def __init__(self, count: int, pools: Sequence[Pool], ddof: int) -> None:
        self._pools, self._ddof = pools, ddof
        self._outcomes = [torch.from_numpy(pool.outcomes) for pool in pools]
        self._intrinsic = torch.zeros(count, len(pools[0].a), dtype=torch.float64)
        self._extrinsic = torch.zeros_like(self._intrinsic)

    def see(self, look: Look) -> None:
        """Score the targets of a look in its pool."""
        pool = self._pools[look.number]
        for b, contents in _shared(pool.b):
            effects = sc_eats(look.near, [pool.a[content] for content in contents], b, self._ddof)
            self._intrinsic[look.block, contents] += effects
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


def _shared(sets: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Each B, and the contents whose it is: groups share one."""
    for b in {id(one): one for one in sets}.values():
        yield b, [content for content, own in enumerate(sets) if own is b]
