"""Retrieve pictures for captions, and order those of a set (docs/methods.md, sections 8.2 and 8.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from src import metrics
from src.studies.matched.exchange import SetExchange
from src.studies.matched.intervals import nanmean
from src.studies.matched.pool import Pool
from src.studies.shared.cosine_blocks import compute_cosines

# Maximum number of retrieved pictures times groups in memory, over captions and permutations.
MAX_MEMBERS = 10**7


@dataclass(frozen=True)
class Retrieved:
    """Pictures that captions retrieve, and their order within the captions' sets.

    Attributes:
        captions: `subject` and `caption` of the W captions.
        subject_of: [W], index of each caption's subject.
        top: [W, K], retrieved pictures of the pool, most similar first.
        similarities: [W, K], their cosines.
        right: pictures of each subject, by its index.
        ranks: for each caption, the normalised ranks of its right pictures within their sets.
        firsts: for each caption, 1 for right pictures that are the nearest of their set (1/k for k tied
            pictures), and 0 for others.
    """

    captions: pd.DataFrame
    subject_of: np.ndarray
    top: np.ndarray
    similarities: np.ndarray
    right: Sequence[np.ndarray]
    ranks: Sequence[np.ndarray]
    firsts: Sequence[np.ndarray]

    def captions_of(self, subject: int) -> np.ndarray:
        """Return the captions of a subject."""
        return np.flatnonzero(self.subject_of == subject)


@dataclass(frozen=True)
class Statistics:
    """Statistics of captions; the last caption stands for the mean over all. Leading axes: permutations."""

    shares: np.ndarray  # [..., W + 1, G]
    bias: np.ndarray  # [..., W + 1]
    max_skew: np.ndarray  # [..., W + 1]
    ndkl: np.ndarray  # [..., W + 1]
    ranks: np.ndarray  # [..., W + 1, G]


def retrieve(
    pool: Pool, captions: pd.DataFrame, caption_vectors: Tensor, face_vectors: Tensor, k: int
) -> Retrieved:
    """Retrieve the k pictures of the pool that are most similar to each caption, and order those of sets.

    `caption_vectors` are [W, D], `face_vectors` [N, D] or [N, Q, D], of the pool.
    """
    subject_of = pd.Index(pool.subjects).get_indexer(pd.Index(captions["subject"]))
    right = [np.flatnonzero(pool.subject_of == subject) for subject in range(len(pool.subjects))]
    top, similarities, ranks, firsts = [], [], [], []
    for rows, block in compute_cosines(caption_vectors, face_vectors):
        positions = metrics.top_k(torch.from_numpy(block), k).numpy()
        top.append(positions)
        similarities.append(np.take_along_axis(block, positions, axis=1))
        for subject, cosines in zip(subject_of[rows], block, strict=True):
            values, sets = cosines[right[subject]][None], pool.set_of[right[subject]]
            ranks.append(metrics.set_ranks(values, sets)[0])
            firsts.append(metrics.first_shares(values, sets)[0])
    return Retrieved(
        captions, subject_of, np.concatenate(top), np.concatenate(similarities), right, ranks, firsts
    )


def compute_statistics(
    pool: Pool, retrieved: Retrieved, groups: np.ndarray, sides: Sequence[np.ndarray]
) -> Statistics:
    """Compute the statistics of all captions for R assignments of groups to pictures, [R, N].

    `sides` are masks [G] of the groups of both sides of Bias@K; empty for none.
    """
    k, base, n_groups = retrieved.top.shape[1], pool.base, len(pool.groups)
    is_member = groups[:, retrieved.top][..., None] == np.arange(n_groups)
    shares = is_member.mean(axis=2)
    counts = is_member.sum(axis=2)
    bias = np.full(shares.shape[:2], np.nan)
    if len(sides):
        bias = metrics.bias_at_k(*(counts[..., side].sum(axis=-1).astype(float) for side in sides))
    ranks = np.full(shares.shape, np.nan)
    for subject in np.unique(retrieved.subject_of):
        rows, right = retrieved.captions_of(subject), retrieved.right[subject]
        values = np.stack([retrieved.ranks[row] for row in rows])
        _, sets = np.unique(pool.set_of[right], return_inverse=True)
        ranks[:, rows] = metrics.permuted_set_means(values, groups[:, right], sets, n_groups)
    per_caption = (shares, bias, metrics.max_skew(shares, base, k), metrics.ndkl(is_member, base), ranks)
    return Statistics(*(append_mean(values) for values in per_caption))


def permute_statistics(
    pool: Pool,
    retrieved: Retrieved,
    exchange: SetExchange,
    sides: Sequence[np.ndarray],
    draws: int,
    seed: int,
) -> Statistics:
    """Compute the statistics under permutations of groups within sets; arrays have a first axis of draws."""
    step = max(1, MAX_MEMBERS // (retrieved.top.size * len(pool.groups)))
    batches = [
        compute_statistics(pool, retrieved, pool.group_of[positions], sides)
        for positions in exchange.draw(draws, seed, step)
    ]
    names = Statistics.__dataclass_fields__
    return Statistics(*(np.concatenate([getattr(batch, name) for batch in batches]) for name in names))


def tabulate_nearest(pool: Pool, retrieved: Retrieved) -> pd.DataFrame:
    """Return `caption`, `rank`, `id` and `similarity` of the retrieved pictures."""
    n_captions, k = retrieved.top.shape
    return pd.DataFrame(
        {
            "caption": np.repeat(retrieved.captions["caption"].to_numpy(dtype=str), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int32), n_captions),
            "id": pool.ids[retrieved.top.ravel()],
            "similarity": retrieved.similarities.ravel(),
        }
    )


def tabulate_orders(pool: Pool, retrieved: Retrieved) -> pd.DataFrame:
    """Return `caption`, `set`, `id`, `group` and `rank` of the right pictures of each caption."""
    right = [retrieved.right[subject] for subject in retrieved.subject_of]
    pictures = np.concatenate(right)
    return pd.DataFrame(
        {
            "caption": np.repeat(retrieved.captions["caption"].to_numpy(dtype=str), [*map(len, right)]),
            "set": np.array(pool.set_names)[pool.set_of[pictures]],
            "id": pool.ids[pictures],
            "group": np.array(pool.groups)[pool.group_of[pictures]],
            "rank": np.concatenate(retrieved.ranks),
        }
    )


def append_mean(values: np.ndarray) -> np.ndarray:
    """Append the mean over captions, the second axis."""
    return np.concatenate([values, nanmean(values, 1)[:, None]], axis=1)
