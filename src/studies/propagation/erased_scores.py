"""Score targets after directions are removed from their vectors (docs/methods.md, section 6.17)."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from src.metrics import erasure, normalise, retrieve
from src.metrics.erasure import Eraser
from src.metrics.similarity import DECIMALS
from src.studies.propagation.attributes import Corpus, Pool
from src.studies.propagation.measures import ExtrinsicOutcome
from src.studies.propagation.similarity_blocks import BLOCK_SIZE, SimilarityBlock

# Vectors are divided by at least this norm, as a removal may leave a vector of 0.
MIN_NORM = 1e-12


def compute_measured_directions(corpus: Corpus, items: Tensor) -> Tensor:
    """Compute mean vector of A minus mean vector of B for each property, averaged over the pools, [D, S].

    Items with several vectors are represented by the mean of these.
    """
    columns = []
    for pool in corpus.pools:
        vectors = normalise(items[pool.rows])
        columns.append((vectors if vectors.ndim == 2 else vectors.mean(dim=1)).T @ build_contrasts(pool))
    return torch.stack(columns).mean(dim=0)


def build_contrasts(pool: Pool) -> Tensor:
    """Build the weights of a pool's items in mean over A minus mean over B, for each property, [M, S]."""
    weights = torch.zeros(len(pool.rows), len(pool.a), dtype=torch.float64)
    for column, (a, b) in enumerate(zip(pool.a, pool.b, strict=True)):
        weights[a, column] += 1 / len(a)
        weights[b, column] -= 1 / len(b)
    return weights


def score_erased(
    x: Tensor, items: Tensor, erasers: Sequence[Eraser], corpus: Corpus, outcome: ExtrinsicOutcome
) -> Tensor:
    """Score targets after each eraser: difference of mean cosines, and outcome.

    An eraser of few dimensions changes the product of a target x and an item y by a cheap term: x'·y = x·y -
    R'(x - c)·D'y. Products of all targets and items are thus computed once, not once per eraser.

    Args:
        x: unit vectors of the targets, [N, D] or [N, Q, D].
        items: vectors of the corpus, likewise; either targets or items may have several vectors.
        erasers: erasers of the targets' vectors.
        corpus: corpus with its attribute sets.
        outcome: an outcome that retrieves items.

    Returns:
        Scores averaged over the pools, [erasers, 2, N, S].
    """
    scorer = outcome.scorer(corpus, x, items, np.empty((0, 1), dtype=np.int64))
    sums = torch.zeros(len(erasers), 2, len(x), len(corpus.properties), dtype=torch.float64)
    directions = torch.cat([eraser.directions for eraser in erasers], dim=1)
    ranks = [eraser.directions.shape[1] for eraser in erasers]
    for index, pool in enumerate(corpus.pools):
        vectors, weights = normalise(items[pool.rows]), build_contrasts(pool)
        flat_items = vectors.flatten(0, -2)
        shifts = (flat_items @ directions).split_with_sizes(ranks, dim=1)
        retrievable = None if pool.retrievable is None else torch.from_numpy(pool.retrievable)
        size = max(1, BLOCK_SIZE // (len(flat_items) * math.prod(x.shape[1:-1])))
        for start in range(0, len(x), size):
            block = slice(start, start + size)
            products = x[block].flatten(0, -2) @ flat_items.T
            for eraser, shift, total in zip(erasers, shifts, sums, strict=True):
                similarities, erased = _compute_similarities(x[block], products, eraser, shift, len(vectors))
                searched = similarities if retrievable is None else similarities[:, retrievable]
                nearest = retrieve(searched, pool.k)
                nearest = nearest if retrievable is None else retrievable[nearest]
                is_last = block.stop >= len(x)
                similarity_block = SimilarityBlock(index, block, erased, nearest, is_last, similarities)
                total[0, block] += similarities @ weights
                total[1, block] += scorer.score(similarity_block)
    return sums / len(corpus.pools)


def _compute_similarities(
    x: Tensor, products: Tensor, eraser: Eraser, shift: Tensor, n_items: int
) -> tuple[Tensor, Tensor]:
    """Return the cosines [n, items] of targets after an eraser, and the targets' erased unit vectors.

    `products` are the products of all vectors of targets and items; `shift` are the products of the items'
    vectors and the eraser's directions.
    """
    flat = x.flatten(0, -2)
    erased = erasure.erase(flat, eraser)
    norms = erased.norm(dim=1, keepdim=True).clamp_min(MIN_NORM)
    coordinates = (flat - eraser.center) @ eraser.coordinates
    similarities = torch.addmm(products, coordinates, shift.T, alpha=-1).div_(norms)
    if similarities.shape != (len(x), n_items):
        shape = len(x), len(flat) // len(x), n_items, len(shift) // n_items
        similarities = similarities.reshape(shape).amax(dim=(1, 3))
    return similarities.round_(decimals=DECIMALS), (erased / norms).reshape(x.shape)
