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


def nearer(
    values: Float[Tensor, "n kept"],
    positions: Int[Tensor, "n kept"],
    similarities: Float[Tensor, "n t"],
    places: Int[Tensor, " t"],
    k: int,
) -> tuple[Float[Tensor, "n best"], Int[Tensor, "n best"]]:
    """`top_k` of a corpus that is seen tile by tile: of what was nearest so far and of one tile more.

    Args:
        values, positions: what this returned for the tiles before; for the first one [N, 0].
        similarities: [N, T] with the items of the tile, finite.
        places: [T] their positions in the corpus, ascending, behind those of all tiles before.
        k: from 1.

    Returns:
        Similarities and positions of the k most similar items so far (all, while they are fewer), most
        similar first; equal ones in order of position.

    >>> import torch
    >>> tile, none = torch.tensor([[0.5, 0.1]]), torch.empty(1, 0)
    >>> found = nearer(none, none.long(), tile, torch.tensor([0, 1]), 2)
    >>> nearer(*found, tile, torch.tensor([2, 3]), 2)[1]
    tensor([[0, 2]])
    """
    if values.shape[1] < k:
        chosen = top_k(similarities, min(k, similarities.shape[1]))
        more, where = similarities.gather(1, chosen), places[chosen]
    else:
        more, where = _above(similarities, places, values[:, -1:])
    # What was found before comes first: it lies before, and equal ones keep their order.
    values, positions = torch.cat([values, more], dim=1), torch.cat([positions, where], dim=1)
    chosen = top_k(values, min(k, values.shape[1]))
    return values.gather(1, chosen), positions.gather(1, chosen)


def _above(similarities: Tensor, places: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """What exceeds the least of each row, and where it lies: [N, most], filled up with minus infinity.

    Of a tile late in a corpus next to nothing does: to look for it is faster than to sort.
    """
    # numpy takes a third of torch's time.
    flat = np.flatnonzero(similarities.numpy() > least.numpy())
    rows, columns = np.divmod(flat, similarities.shape[1])
    counts = np.bincount(rows, minlength=len(similarities))
    ranks = np.arange(len(rows)) - (counts.cumsum() - counts)[rows]
    values = similarities.new_full((len(similarities), counts.max()), -torch.inf)
    where = torch.zeros(values.shape, dtype=torch.int64)
    values.numpy()[rows, ranks] = similarities.numpy().reshape(-1)[flat]
    where.numpy()[rows, ranks] = places.numpy()[columns]
    return values, where


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
