"""The pass over all similarities of targets and corpus, block by block: nothing of it is kept.

A pool whose vectors are too many to be held is walked tile by tile, from wherever they are mapped: memory
does not grow with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src.experiments.attributes import Pool
from src.metrics import cosines, mean_outcome, nearer, retrieved, sc_eats, screened, unit

# Similarities held at once: 25 MB. Fewer targets at a time multiply slower; what is larger than 32 MB
# glibc asks the kernel for each time anew.
BLOCK = 3 * 2**20
# Bytes of a pool's float64 vectors that are held at once; a larger pool is walked, by tiles of so many.
HELD, TILE = 2**30, 2**26
# Items of a tile at most: with more, a block has too few targets to be multiplied fast.
ITEMS = 2**14
# Bytes of the nearest items that a walk keeps: it serves as many targets, and others take another walk.
NEAREST = 2**28
# Share of a pool that A and B may take: with more, all similarities in float64 are the less work.
FEW = 0.4


@dataclass(frozen=True)
class Look:
    """Some targets beside a whole pool.

    Attributes:
        number: of the pool.
        block: which targets.
        near: their similarities [targets, M] with the pool's items, or with some of them.
        nearest: [targets, k] positions within the pool of what is retrieved, ascending.
        last: whether these are the pool's last targets.
        shown: positions of the items in `near`, ascending, those of A and B among them; None: all.
    """

    number: int
    block: slice
    near: Tensor
    nearest: Tensor
    last: bool
    shown: np.ndarray | None = None

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Columns of `near` in which positions of A or B stand."""
        return positions if self.shown is None else np.searchsorted(self.shown, positions)


def looks(
    targets: Tensor, corpus: Tensor, pools: Sequence[Pool], every: bool = True, held: int = HELD
) -> Iterator[Look]:
    """Every target beside every pool.

    Args:
        targets, corpus: unit vectors, [N, D] or [N, Q, D]; they may be mapped from files.
        pools: parts of the corpus.
        every: whether the similarities with all items are asked for: all vectors of a pool are held then.
        held: bytes of a pool's float64 vectors beyond which it is walked, where they are not.
    """
    for number, pool in enumerate(pools):
        of = _held
        if not every:
            walked = len(pool.rows) * 8 * math.prod(corpus.shape[1:]) > held
            few = len(pool.attributes) < FEW * len(pool.rows)
            of = _walked if walked else _screened if few else _held
        yield from of(number, pool, targets, corpus)


def _held(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[Look]:
    # Once per pool: done for each block it would take longer than the product.
    items = unit(corpus[pool.rows])
    kept = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    for block in _blocks(targets, len(items)):
        near = cosines(unit(targets[block]), items)
        nearest = retrieved(near if kept is None else near[:, kept], pool.k)
        last = block.stop >= len(targets)
        yield Look(number, block, near, nearest if kept is None else kept[nearest], last)


def _screened(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[Look]:
    items = unit(corpus[pool.rows])
    attributes = items[pool.attributes]
    kept = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    items = items if kept is None else items[kept]
    rough = items.float()
    for block in _blocks(targets, len(items)):
        own = unit(targets[block])
        nearest = screened(own, items, rough, pool.k)
        nearest = nearest if kept is None else kept[nearest]
        last = block.stop >= len(targets)
        yield Look(number, block, cosines(own, attributes), nearest, last, pool.attributes)


def _walked(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[Look]:
    items = unit(corpus[pool.rows[pool.attributes]])
    served = max(1, NEAREST // (16 * pool.k))
    for start in range(0, len(targets), served):
        own = targets[start : start + served]
        nearest = _nearest(pool, own, corpus)
        for block in _blocks(own, len(items)):
            near = cosines(unit(own[block]), items)
            place = slice(start + block.start, min(start + block.stop, start + len(own)))
            yield Look(number, place, near, nearest[block], place.stop >= len(targets), pool.attributes)


def _nearest(pool: Pool, targets: Tensor, corpus: Tensor) -> Tensor:
    """[N, k] positions of what is retrieved, by one walk through the pool."""
    size = max(1, min(ITEMS, TILE // (8 * math.prod(corpus.shape[1:]))))
    blocks = list(_blocks(targets, size))
    none = torch.empty(len(targets), 0, dtype=torch.float64)
    found = [(none[block], none[block].long()) for block in blocks]
    for start in range(0, pool.size, size):
        tile = np.arange(start, min(start + size, pool.size))
        tile = tile if pool.retrievable is None else pool.retrievable[tile]
        items, places = unit(corpus[pool.rows[tile]]), torch.from_numpy(tile)
        for index, block in enumerate(blocks):
            near = cosines(unit(targets[block]), items)
            found[index] = nearer(*found[index], near, places, pool.k)
        # Or the next tile would be made beside this one.
        del items, near
    return torch.cat([positions for _, positions in found])


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
            a = [look.places(pool.a[content]) for content in contents]
            effects = sc_eats(look.near, a, look.places(b), self._ddof)
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
