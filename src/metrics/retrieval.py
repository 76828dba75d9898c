"""What is retrieved: the k items of a corpus most similar to a target, and their outcome."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def top_k(similarities: Float[Tensor, "n m"], k: int) -> Int[Tensor, "n k"]:
    """The k most similar items of each row, most similar first; equal ones in order of position.

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
    chosen = retrieved(similarities, k)
    # Ascending positions: a stable sort leaves equal ones in their order.
    order = similarities.gather(1, chosen).argsort(dim=1, descending=True, stable=True)
    return chosen.gather(1, order)


def retrieved(similarities: Float[Tensor, "n m"], k: int) -> Int[Tensor, "n k"]:
    """Those that `top_k` finds, in order of position: what an outcome of them needs, in less time.

    No row is sorted: numpy's partition, vectorised on x86, takes a quarter of `torch.topk`'s time.

    Args:
        similarities: [N, M], finite.
        k: from 1 to M.

    Returns:
        Positions [N, k], ascending.

    Raises:
        ValueError: k is out of range.

    >>> import torch
    >>> retrieved(torch.tensor([[0.1, 0.9, 0.5, 0.9, 0.5]]), 3)
    tensor([[1, 2, 3]])
    """
    items = similarities.shape[1]
    if not 1 <= k <= items:
        raise ValueError(f"k={k} of a corpus of {items} items: from 1 to {items} can be retrieved")
    if k == items:
        return torch.arange(items).expand(len(similarities), -1)
    # numpy works on one core, and lets go of the interpreter while it does.
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(partial(_largest, k=k), np.array_split(similarities.numpy(), threads))
        return torch.from_numpy(np.concatenate([*parts]))


def _largest(rows: np.ndarray, k: int) -> np.ndarray:
    """[N, k] positions of the largest values of each row, ascending; of equal ones the first."""
    least = rows.shape[1] - k - 1
    # The last k are the largest; the one before them is the largest of the others.
    parted = np.argpartition(rows, least, axis=1)[:, least:]
    starts = np.arange(len(rows))[:, None] * rows.shape[1]
    values = rows.reshape(-1).take(parted + starts)
    chosen = parted[:, 1:].copy()
    # Where it equals the smallest of them, which of the equal ones were taken is chance.
    for row in np.flatnonzero(values[:, 1:].min(axis=1) == values[:, 0]):
        above, equal = (
            np.flatnonzero(of) for of in (rows[row] > values[row, 0], rows[row] == values[row, 0])
        )
        chosen[row] = np.concatenate([above, equal[: k - len(above)]])
    chosen.sort(axis=1)
    return chosen


def nearer(
    values: Float[Tensor, "n kept"],
    positions: Int[Tensor, "n kept"],
    similarities: Float[Tensor, "n t"],
    places: Int[Tensor, " t"],
    k: int,
) -> tuple[Float[Tensor, "n best"], Int[Tensor, "n best"]]:
    """`retrieved` of a corpus that is seen tile by tile: of what was nearest so far and of one tile more.

    Args:
        values, positions: what this returned for the tiles before; for the first one [N, 0].
        similarities: [N, T] with the items of the tile, finite.
        places: [T] their positions in the corpus, ascending, behind those of all tiles before.
        k: from 1.

    Returns:
        Similarities and positions of the k most similar items so far (all, while they are fewer), in order
        of position; of equal ones the first.

    >>> import torch
    >>> tile, none = torch.tensor([[0.5, 0.1]]), torch.empty(1, 0)
    >>> found = nearer(none, none.long(), tile, torch.tensor([0, 1]), 2)
    >>> nearer(*found, tile, torch.tensor([2, 3]), 2)[1]
    tensor([[0, 2]])
    """
    if values.shape[1] < k:
        chosen = retrieved(similarities, min(k, similarities.shape[1]))
        more, where = similarities.gather(1, chosen), places[chosen]
    else:
        more, where = _above(similarities, places, values.amin(dim=1, keepdim=True))
    # What was found before comes first, as it lies before: columns stay in order of position.
    values, positions = torch.cat([values, more], dim=1), torch.cat([positions, where], dim=1)
    chosen = retrieved(values, min(k, values.shape[1]))
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
