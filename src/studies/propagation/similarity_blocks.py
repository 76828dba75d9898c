"""Compute all similarities of targets and corpus block by block, without storing them.

Vectors may be mapped from files. A pool that does not fit in memory is processed in tiles, so that memory
does not grow with the pool.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src.metrics import cosines, merge_tile, normalise, retrieve, retrieve_screened
from src.studies.propagation.attributes import Pool

# Similarities in memory at once: 25 MB. Smaller blocks multiply more slowly; glibc requests arrays
# larger than 32 MB from the kernel each time.
BLOCK = 3 * 2**20
# Maximum bytes of a pool's float64 vectors in memory; a larger pool is processed in tiles of `TILE_BYTES`.
MAX_BYTES, TILE_BYTES = 2**30, 2**26
# Maximum number of items in a tile: with more, a block has too few targets for fast multiplication.
MAX_TILE_ITEMS = 2**14
# Bytes of nearest items stored in a pass over a pool: this limits the targets per pass.
NEAREST_BYTES = 2**28
# Share of A and B in a pool below which computing float64 similarities with only these items is faster.
MAX_ATTRIBUTE_SHARE = 0.4


@dataclass(frozen=True)
class SimilarityBlock:
    """Similarities of a block of targets with a pool."""

    pool: int  # number of the pool
    targets: slice
    vectors: Tensor  # of the targets in float64, of unit length, [targets, D] or [targets, Q, D]
    nearest: Tensor | None  # [targets, k] ascending positions in the pool; None without retrieval
    last: bool  # whether these are the pool's last targets
    similarities: Tensor | None = None  # [targets, M] with the pool's items; None where not needed


def similarity_blocks(
    targets: Tensor, corpus: Tensor, pools: Sequence[Pool], every: bool = True, max_bytes: int = MAX_BYTES
) -> Iterator[SimilarityBlock]:
    """Yield every target with every pool, in blocks of targets.

    Vectors, [N, D] or [N, Q, D], are of unit length and may be mapped from files. A pool whose float64
    vectors exceed `max_bytes` is processed in tiles, unless similarities with `every` item are needed.
    """
    for number, pool in enumerate(pools):
        blocks_of = _in_memory
        if not every:
            is_large = len(pool.rows) * 8 * math.prod(corpus.shape[1:]) > max_bytes
            has_few = len(pool.attributes) < MAX_ATTRIBUTE_SHARE * len(pool.rows)
            untiled = _screened if has_few or shortcut_is_faster(pool, targets, corpus) else _in_memory
            blocks_of = (_tiled if is_large else untiled) if pool.k else _without_items
        yield from blocks_of(number, pool, targets, corpus)


def shortcut_is_faster(pool: Pool, targets: Tensor, corpus: Tensor) -> bool:
    """Return whether a measure's shortcut by vectors (of SC-EAT: `sc_eats_qr`) takes less time."""
    # Multiplications per target: D² / 2 for each property by the shortcut, D for each item by similarities.
    return targets.ndim == corpus.ndim == 2 and len(pool.a) * corpus.shape[1] < 2 * len(pool.attributes)


def _without_items(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[SimilarityBlock]:  # noqa: ARG001
    for block, last in _blocks(targets, len(pool.attributes)):
        yield SimilarityBlock(number, block, normalise(targets[block]), None, last)


def _in_memory(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[SimilarityBlock]:
    # Convert once per pool: converting for each block would take longer than the product.
    items = normalise(corpus[pool.rows])
    retrievable = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    for block, last in _blocks(targets, len(items)):
        vectors = normalise(targets[block])
        similarities = cosines(vectors, items)
        searched = similarities if retrievable is None else similarities[:, retrievable]
        nearest = retrieve(searched, pool.k) if pool.k else None
        if nearest is not None and retrievable is not None:
            nearest = retrievable[nearest]
        yield SimilarityBlock(number, block, vectors, nearest, last, similarities)


def _screened(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[SimilarityBlock]:
    retrievable = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    items = normalise(corpus[pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]])
    rough = items.float()
    for block, last in _blocks(targets, len(items)):
        vectors = normalise(targets[block])
        nearest = retrieve_screened(vectors, items, rough, pool.k)
        nearest = nearest if retrievable is None else retrievable[nearest]
        yield SimilarityBlock(number, block, vectors, nearest, last)


def _tiled(number: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[SimilarityBlock]:
    count = max(1, NEAREST_BYTES // (16 * pool.k))  # 16 bytes: a similarity and a position
    for start in range(0, len(targets), count):
        batch = targets[start : start + count]
        nearest = _nearest(pool, batch, corpus)
        for block, _ in _blocks(batch, len(pool.attributes)):
            block_targets = slice(start + block.start, min(start + block.stop, start + len(batch)))
            last = block_targets.stop >= len(targets)
            yield SimilarityBlock(number, block_targets, normalise(batch[block]), nearest[block], last)


def _nearest(pool: Pool, targets: Tensor, corpus: Tensor) -> Tensor:
    """Return positions of the retrieved items, [N, k], in a single pass over the pool."""
    size = max(1, min(MAX_TILE_ITEMS, TILE_BYTES // (8 * math.prod(corpus.shape[1:]))))
    blocks = [block for block, _ in _blocks(targets, size)]
    no_items = torch.empty(len(targets), 0, dtype=torch.float64)
    nearest_so_far = [(no_items[block], no_items[block].long()) for block in blocks]
    # Tiles reuse the same memory, as the allocator does not return all freed memory to the system.
    buffer = corpus.new_empty(min(size, pool.size), *corpus.shape[1:])
    vectors = torch.empty_like(buffer, dtype=torch.float64)
    for start in range(0, pool.size, size):
        tile = np.arange(start, min(start + size, pool.size))
        tile = tile if pool.retrievable is None else pool.retrievable[tile]
        loaded = torch.index_select(corpus, 0, torch.from_numpy(pool.rows[tile]), out=buffer[: len(tile)])
        items, places = normalise(loaded, out=vectors[: len(tile)]), torch.from_numpy(tile)
        for index, block in enumerate(blocks):
            similarities = cosines(normalise(targets[block]), items)
            nearest_so_far[index] = merge_tile(*nearest_so_far[index], similarities, places, pool.k)
            # Free the similarities before the next ones are allocated.
            del similarities
    return torch.cat([positions for _, positions in nearest_so_far])


def _blocks(targets: Tensor, items: int) -> Iterator[tuple[slice, bool]]:
    """Yield slices of the targets, and whether each is the last."""
    size = max(1, BLOCK // (items * math.prod(targets.shape[1:-1])))
    for start in range(0, len(targets), size):
        yield slice(start, start + size), start + size >= len(targets)
