"""Yield blocks of targets with their nearest items and, if needed, all similarities with a pool.

Similarities are not stored, and vectors may be mapped from files. Unless all similarities are needed, a large
pool is processed in tiles.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src.metrics import cosines, merge_tile, normalise, retrieve, retrieve_screened
from src.studies.propagation.attributes import Pool

# Number of similarities in a block: 25 MB in float64. Smaller blocks multiply more slowly; for arrays of more
# than 32 MB, glibc requests memory from the kernel each time.
BLOCK_SIZE = 3 * 2**20
# Number of blocks that are screened together: large products are faster, and float32 takes half the memory.
SCREENED_BLOCKS = 2
# Maximum bytes of a pool's float64 vectors in memory; larger pools are processed in tiles of `TILE_BYTES`.
MAX_POOL_BYTES, TILE_BYTES = 2**30, 2**26
# Maximum number of items in a tile: with more, a block would have too few targets to multiply fast.
MAX_TILE_ITEMS = 2**14
# Maximum bytes of nearest items in memory; limits the number of targets in a pass over a pool.
NEAREST_BYTES = 2**28
# If A and B are less than this share of a pool, it is faster to compute float64 similarities with their items
# only, and to screen the pool in float32.
MAX_ATTRIBUTE_SHARE = 0.4


@dataclass(frozen=True)
class SimilarityBlock:
    """Similarities of a block of targets with a pool."""

    pool_index: int
    targets: slice
    vectors: Tensor  # unit vectors of the targets in float64, [targets, D] or [targets, Q, D]
    nearest: Tensor | None  # [targets, k] positions in the pool of the k most similar items; None if k is 0
    is_last: bool  # whether the block has the last targets of the pool
    similarities: Tensor | None = None  # [targets, M] with the pool's items; None if not computed in full


def similarity_blocks(
    targets: Tensor,
    corpus: Tensor,
    pools: Sequence[Pool],
    with_similarities: bool = True,
    max_bytes: int = MAX_POOL_BYTES,
) -> Iterator[SimilarityBlock]:
    """Yield all targets in blocks, pool by pool.

    Args:
        targets: unit vectors of the targets, [N, D] or [N, Q, D]; may be mapped from a file.
        corpus: unit vectors of the corpus, likewise.
        pools: pools of the corpus.
        with_similarities: whether every block needs its similarities with all items of the pool.
        max_bytes: maximum size of a pool's float64 vectors in memory; without `with_similarities`, larger
            pools are processed in tiles.
    """
    for index, pool in enumerate(pools):
        yield_blocks = _yield_with_similarities
        if not with_similarities:
            is_large = len(pool.rows) * 8 * math.prod(corpus.shape[1:]) > max_bytes
            has_few_attributes = len(pool.attributes) < MAX_ATTRIBUTE_SHARE * len(pool.rows)
            if not pool.k:
                yield_blocks = _yield_vectors_only
            elif is_large:
                yield_blocks = _yield_tiled
            elif has_few_attributes or shortcut_is_faster(pool, targets, corpus):
                yield_blocks = _yield_screened
        yield from yield_blocks(index, pool, targets, corpus)


def shortcut_is_faster(pool: Pool, targets: Tensor, corpus: Tensor) -> bool:
    """Return whether scoring targets from their vectors takes fewer multiplications than from similarities.

    A measure's shortcut, such as `sc_eats_qr`, scores from vectors.
    """
    # Multiplications per target: D² / 2 per property with the shortcut, D per item of A and B without it.
    return targets.ndim == corpus.ndim == 2 and len(pool.a) * corpus.shape[1] < 2 * len(pool.attributes)


def _yield_vectors_only(index: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[SimilarityBlock]:  # noqa: ARG001
    """Yield blocks without similarities or retrieved items, for outcomes that retrieve nothing."""
    for target_slice, is_last in _slice_targets(targets, len(pool.attributes)):
        yield SimilarityBlock(index, target_slice, normalise(targets[target_slice]), None, is_last)


def _yield_with_similarities(
    index: int, pool: Pool, targets: Tensor, corpus: Tensor
) -> Iterator[SimilarityBlock]:
    """Yield blocks with the similarities of all items of the pool."""
    # Normalise once per pool: in each block it would take longer than the product.
    items = normalise(corpus[pool.rows])
    retrievable = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    for target_slice, is_last in _slice_targets(targets, len(items)):
        vectors = normalise(targets[target_slice])
        similarities = cosines(vectors, items)
        retrievable_similarities = similarities if retrievable is None else similarities[:, retrievable]
        nearest = retrieve(retrievable_similarities, pool.k) if pool.k else None
        if nearest is not None and retrievable is not None:
            nearest = retrievable[nearest]
        yield SimilarityBlock(index, target_slice, vectors, nearest, is_last, similarities)


def _yield_screened(index: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[SimilarityBlock]:
    """Yield blocks without similarities: screen the pool in float32, and compare close items in float64."""
    retrievable = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
    items = normalise(corpus[pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]])
    items_float32 = items.float()
    slices = [*_slice_targets(targets, len(items))]
    for first in range(0, len(slices), SCREENED_BLOCKS):
        blocks = slices[first : first + SCREENED_BLOCKS]
        start = blocks[0][0].start
        screened = normalise(targets[start : blocks[-1][0].stop])
        positions = retrieve_screened(screened, items, items_float32, pool.k)
        positions = positions if retrievable is None else retrievable[positions]
        for target_slice, is_last in blocks:
            rows = slice(target_slice.start - start, target_slice.stop - start)
            yield SimilarityBlock(index, target_slice, screened[rows], positions[rows], is_last)


def _yield_tiled(index: int, pool: Pool, targets: Tensor, corpus: Tensor) -> Iterator[SimilarityBlock]:
    """Yield blocks whose items are retrieved from a pool read in tiles; without similarities."""
    size = max(1, NEAREST_BYTES // (16 * pool.k))  # 16 bytes: a similarity and a position
    for start in range(0, len(targets), size):
        batch = targets[start : start + size]
        nearest = _find_nearest(pool, batch, corpus)
        for target_slice, _ in _slice_targets(batch, len(pool.attributes)):
            block_targets = slice(
                start + target_slice.start, min(start + target_slice.stop, start + len(batch))
            )
            is_last = block_targets.stop >= len(targets)
            yield SimilarityBlock(
                index, block_targets, normalise(batch[target_slice]), nearest[target_slice], is_last
            )


def _find_nearest(pool: Pool, targets: Tensor, corpus: Tensor) -> Tensor:
    """Return the positions of the k most similar items, [N, k], in a single pass over a pool in tiles."""
    size = max(1, min(MAX_TILE_ITEMS, TILE_BYTES // (8 * math.prod(corpus.shape[1:]))))
    blocks = [target_slice for target_slice, _ in _slice_targets(targets, size)]
    no_items = torch.empty(len(targets), 0, dtype=torch.float64)
    nearest_so_far = [(no_items[block], no_items[block].long()) for block in blocks]
    # Tiles reuse the same memory, as the allocator does not return all freed memory to the system.
    buffer = corpus.new_empty(min(size, pool.size), *corpus.shape[1:])
    vectors = torch.empty_like(buffer, dtype=torch.float64)
    for start in range(0, pool.size, size):
        tile = np.arange(start, min(start + size, pool.size))
        tile = tile if pool.retrievable is None else pool.retrievable[tile]
        loaded = torch.index_select(corpus, 0, torch.from_numpy(pool.rows[tile]), out=buffer[: len(tile)])
        items, positions = normalise(loaded, out=vectors[: len(tile)]), torch.from_numpy(tile)
        for index, block in enumerate(blocks):
            similarities = cosines(normalise(targets[block]), items)
            nearest_so_far[index] = merge_tile(*nearest_so_far[index], similarities, positions, pool.k)
            # Free the similarities before the next ones are allocated.
            del similarities
    return torch.cat([nearest for _, nearest in nearest_so_far])


def _slice_targets(targets: Tensor, n_items: int) -> Iterator[tuple[slice, bool]]:
    """Yield slices of the targets for blocks with `n_items` items, and whether a slice is the last."""
    size = max(1, BLOCK_SIZE // (n_items * math.prod(targets.shape[1:-1])))
    for start in range(0, len(targets), size):
        yield slice(start, start + size), start + size >= len(targets)
