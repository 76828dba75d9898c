"""What is retrieved: the k items of a corpus most similar to a target, and their outcome."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor


def top_k(similarities: Float[Tensor, "n m"], k: int) -> Int[Tensor, "n k"]:
    """The k most similar items of each row, most similar first; equal ones in order of position.

    `torch.topk` leaves the order of equal values open, so rows where that matters are sorted anew.

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
    values, positions = similarities.topk(min(k + 1, items), dim=1)
    tied = (values[:, 1:] == values[:, :-1]).any(dim=1)
    chosen = positions[:, :k]
    if tied.any():
        order = similarities[tied].sort(dim=1, descending=True, stable=True).indices
        chosen = chosen.clone()
        chosen[tied] = order[:, :k]
    return chosen


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
