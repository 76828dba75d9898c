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

from src.metrics import cosines, nearer, retrieved, screened, unit
from src.studies.propagation.attributes import Pool

# Similarities held at once: 25 MB. Fewer targets at a time multiply slower; what is larger than 32 MB
# glibc asks the kernel for each time anew.
BLOCK = 3 * 2**20
# Bytes of a pool's float64 vectors that are held at once; a larger pool is walked, by tiles of so many.
HELD, TILE = 2**30, 2**26
# Items of a tile at most: with more, a block has too few targets to be multiplied fast.
ITEMS = 2**14
# Bytes of the nearest items that a walk keeps: it serves as many targets, and others take another walk.
NEAREST = 2**28
# Share of a pool whose similarities SC-EAT may ask for: of more, all in float64 are the less work.
FEW = 0.4


@dataclass(frozen=True)
class Look:
    """Some targets beside a whole pool.

    Attributes:
        number: of the pool.
        block: which targets.
        own: their vectors in float64, of unit length, [targets, D] or [targets, Q, D].
        nearest: [targets, k] positions within the pool of what is retrieved, ascending; None: nothing is.
        last: whether these are the pool's last targets.
        near: their similarities [targets, M] with the pool's items; None where they were not needed.
    """

    number: int
    block: slice
    own: Tensor
    nearest: Tensor | None
    last: bool
    near: Tensor | None = None


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
            few = factored(pool, targets, corpus) or len(pool.attributes) < FEW * len(pool.rows)
            of = _walked if walked else _screened if few else _held
            of = of if pool.k else _alone
        yield from of(number, pool, targets, corpus)


def factored(pool: Pool, targets: Tensor, corpus: Tensor) -> bool:
    """Return whether a measure's shortcut by vectors (of SC-EAT: `src.metrics.sc_eat_qr`) takes less time."""
    # A triangle of the width for each content, beside all of A and B.
    return targets.ndim == corpus.ndim == 2 and len(pool.a) * corpus.shape[1] < 2 * len(pool.attributes)


def _alone(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[Look]:  # noqa: ARG001
    for block in _blocks(targets, len(pool.attributes)):
        yield Look(number, block, unit(targets[block]), None, block.stop >= len(targets))


def _held(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[Look]:
    # Once per pool: done for each block it would take longer than the product.
    items = unit(corpus[pool.rows])
    kept = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    for block in _blocks(targets, len(items)):
        own = unit(targets[block])
        near = cosines(own, items)
        nearest = retrieved(near if kept is None else near[:, kept], pool.k) if pool.k else None
        last = block.stop >= len(targets)
        if nearest is not None and kept is not None:
            nearest = kept[nearest]
        yield Look(number, block, own, nearest, last, near)


def _screened(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[Look]:
    kept = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    items = unit(corpus[pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]])
    rough = items.float()
    for block in _blocks(targets, len(items)):
        own = unit(targets[block])
        nearest = screened(own, items, rough, pool.k)
        last = block.stop >= len(targets)
        yield Look(number, block, own, nearest if kept is None else kept[nearest], last)


def _walked(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[Look]:
    served = max(1, NEAREST // (16 * pool.k))
    for start in range(0, len(targets), served):
        own = targets[start : start + served]
        nearest = _nearest(pool, own, corpus)
        for block in _blocks(own, len(pool.attributes)):
            place = slice(start + block.start, min(start + block.stop, start + len(own)))
            yield Look(number, place, unit(own[block]), nearest[block], place.stop >= len(targets))


def _nearest(pool: Pool, targets: Tensor, corpus: Tensor) -> Tensor:
    """[N, k] positions of what is retrieved, by one walk through the pool."""
    size = max(1, min(ITEMS, TILE // (8 * math.prod(corpus.shape[1:]))))
    blocks = list(_blocks(targets, size))
    none = torch.empty(len(targets), 0, dtype=torch.float64)
    found = [(none[block], none[block].long()) for block in blocks]
    # All tiles in the same memory: of what is let go of, an allocator keeps some.
    stored = corpus.new_empty(min(size, pool.size), *corpus.shape[1:])
    vectors = torch.empty_like(stored, dtype=torch.float64)
    for start in range(0, pool.size, size):
        tile = np.arange(start, min(start + size, pool.size))
        tile = tile if pool.retrievable is None else pool.retrievable[tile]
        read = torch.index_select(corpus, 0, torch.from_numpy(pool.rows[tile]), out=stored[: len(tile)])
        items, places = unit(read, out=vectors[: len(tile)]), torch.from_numpy(tile)
        for index, block in enumerate(blocks):
            near = cosines(unit(targets[block]), items)
            found[index] = nearer(*found[index], near, places, pool.k)
            # Or the next would be made beside this one.
            del near
    return torch.cat([positions for _, positions in found])


def _blocks(targets: Tensor, items: int) -> Iterator[slice]:
    size = max(1, BLOCK // (items * math.prod(targets.shape[1:-1])))
    return (slice(start, start + size) for start in range(0, len(targets), size))
