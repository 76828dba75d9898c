"""What is retrieved: the k items of a corpus most similar to a target, and their outcome."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def top_k(similarities: Float[Tensor, "n m"], k: int) -> Int[Tensor, "n k"]:
    """The k most similar items of each row, most similar first; equal ones in order of position.

    No sort of a whole row: numpy's partition, vectorised on x86, takes a quarter of `torch.topk`'s time.

    Args:
        similarities: [N, M], finite.
        k: from 1 to M.

    Returns:
        Positions [N, k].

    Raises:
        ValueError: k is out of range.

    >>> import torch
    >>> top_k(torch.tensor([[0.1, 0.9, 0.5, 0.9, 0.5]]), 3)
    tensor([[1, 3, 2]])
    """
    items = similarities.shape[1]
    if not 1 <= k <= items:
        raise ValueError(f"k={k} of a corpus of {items} items: from 1 to {items} can be retrieved")
    values = similarities.numpy()
    positions = _largest(values, min(k + 1, items))
    found = np.take_along_axis(values, positions, axis=1)
    order = np.argsort(-found, axis=1)
    found, positions = (np.take_along_axis(of, order, axis=1) for of in (found, positions))
    chosen = positions[:, :k].copy()
    # One more than k was taken: where none of them is equal to the next, order and choice are certain.
    for row in np.flatnonzero((found[:, 1:] == found[:, :-1]).any(axis=1)):
        reached = np.flatnonzero(values[row] >= found[row, k - 1])
        chosen[row] = reached[np.argsort(-values[row, reached], kind="stable")[:k]]
    return torch.from_numpy(chosen)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """[N, count] positions of the largest values of each row, in any order."""
    least = values.shape[1] - count

    def of(rows: np.ndarray) -> np.ndarray:
        return np.argpartition(rows, least, axis=1)[:, least:].copy()

    # numpy works on one core, and lets go of the interpreter while it does.
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate([*pool.map(of, np.array_split(values, threads))])


def mean_outcome(nearest: Int[Tensor, "n k"], outcomes: Float[Tensor, "m s"]) -> Float[Tensor, "n s"]:
    """Mean outcome of what is retrieved (Ghate et al. 2025, Algorithm 1).

    Args:
        nearest: [N, k], positions in the corpus, see `top_k`.
        outcomes: [M, S]: what each item contributes to each of S outcomes: its valence, or whether
            it belongs to a group.

    Returns:
        [N, S], float64: mean valence, or share of the group.

    >>> import torch
    >>> mean_outcome(torch.tensor([[1, 2]]), torch.tensor([[1.0], [0.2], [0.4]]))
    tensor([[0.3000]], dtype=torch.float64)
    """
    return outcomes.double()[nearest].mean(dim=1)
