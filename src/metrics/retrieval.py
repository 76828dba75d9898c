"""What is retrieved: the k items of a corpus most similar to a target, and their outcome."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from src.metrics.partial_sort import above, largest, padded
from src.metrics.similarity import cosines, paired, products

# Share of the similarities that are computed one by one; where more are unsure, all are.
MOST_UNSURE = 0.05


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
    if _whole(similarities.shape[1], k):
        return torch.arange(k).expand(len(similarities), -1)
    # Rounding keeps the order: only what equals the k-th in float32 has to be looked at as it is.
    whole = similarities.numpy()
    return largest(similarities.float(), k, lambda rows, columns: whole[rows, columns])


def screened(
    x: Float[Tensor, "n *qx width"],
    y: Float[Tensor, "m *qy width"],
    rough: Float[Tensor, "m *qy width"],
    k: int,
) -> Int[Tensor, "n k"]:
    """`retrieved` of `cosines(x, y)`, by products in float32: half the time.

    Such a product of unit vectors of width D is at most (D + 8) / 2^24 off, in whatever order it is summed
    (Higham 2002, section 3.1). What lies above the k-th largest by more than twice that is retrieved, what
    lies below it by more is not; the cosines of the others, a few of a row, are computed in float64.

    Args:
        x, y: see `cosines`.
        rough: y in float32: who meets it block by block makes it once.
        k: from 1 to M.

    Returns:
        Positions [N, k], ascending.

    Raises:
        ValueError: k is out of range.
    """
    if _whole(len(y), k):
        return torch.arange(k).expand(len(x), -1)
    slack = 2 * (x.shape[-1] + 8) * 2.0**-24

    def exactly(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        own = slice(rows[0], rows[-1] + 1)
        if len(rows) < MOST_UNSURE * (own.stop - own.start) * len(y):
            return paired(x, y, rows, columns)
        found: np.ndarray = cosines(x[own], y).numpy()[rows - own.start, columns]
        return found

    return largest(products(x.float(), rough), k, exactly, slack)


def _whole(items: int, k: int) -> bool:
    if not 1 <= k <= items:
        raise ValueError(f"k={k} of a corpus of {items} items: from 1 to {items} can be retrieved")
    return k == items


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
        # Of a tile late in a corpus next to nothing is nearer: to look for it is faster than to sort.
        near = similarities.numpy()
        # What is as near as the k-th so far comes behind it, and is not asked for.
        rows, columns, found = above(near, np.nextafter(values.amin(dim=1).numpy(), np.inf))
        more = torch.from_numpy(padded(rows, found, len(values)))
        where = torch.from_numpy(padded(rows, places.numpy()[columns], len(values), fill=0))
    # What was found before comes first, as it lies before: columns stay in order of position.
    values, positions = torch.cat([values, more], dim=1), torch.cat([positions, where], dim=1)
    chosen = retrieved(values, min(k, values.shape[1]))
    return values.gather(1, chosen), positions.gather(1, chosen)


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
    # By numpy, and outcome by outcome: a quarter of the time. Only what is retrieved is copied.
    count, values = outcomes.shape[1], outcomes.double().numpy().reshape(-1)
    places, found = nearest.numpy() * count, np.empty((len(nearest), count))
    for outcome in range(count):
        values.take(places).mean(axis=1, out=found[:, outcome])
        places += 1
    return torch.from_numpy(found)
