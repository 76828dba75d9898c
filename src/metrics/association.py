"""Association of targets with two sets of attributes: SC-EAT and EAT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

EXACT_PARTITIONS = 20_000
MONTE_CARLO_DRAWS = 10_000
TOLERANCE = 1e-12
# Share of the similarities that are copied at most, to be summed apart from others.
MOST = 0.5


@dataclass(frozen=True)
class EmbeddingAssociation:
    """Result of an EAT.

    Attributes:
        d: effect size, in standard deviations.
        p: one-sided share of partitions whose statistic is at least the observed one.
    """

    d: float
    p: float


def sc_eat(to_a: Float[Tensor, "n a"], to_b: Float[Tensor, "n b"], ddof: int = 1) -> Float[Tensor, " n"]:
    """Single-category association of each target with A against B.

    es = (mean of the cosines with A - mean of those with B) / their standard deviation over the
    concatenation of A and B (Caliskan et al. 2017; Ghate et al. 2025). With |A| = |B| = n and
    ddof = 1, |es| is at most 2 sqrt((2n - 1) / (2n)): it saturates.

    Args:
        to_a: similarities of N targets with the items of A.
        to_b: likewise with B.
        ddof: 1 divides the squared deviations by |A| + |B| - 1, 0 by |A| + |B|.

    Returns:
        Effect sizes [N], float64; NaN where all of a target's similarities are equal.

    Raises:
        ValueError: A or B is empty, or there are not more similarities than `ddof`.

    >>> sc_eat(torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, -1.0]]), ddof=0)
    tensor([1.4142], dtype=torch.float64)
    """
    a, b = torch.as_tensor(to_a).double(), torch.as_tensor(to_b).double()
    checked(a.shape[-1], b.shape[-1], ddof)
    both = torch.cat([a, b], dim=-1)
    # Rounding can leave a deviation of 1e-17 where there is none: compare the extremes instead.
    flat = both.amax(dim=-1) == both.amin(dim=-1)
    deviation = both.std(dim=-1, correction=ddof).masked_fill(flat, math.nan)
    return (a.mean(dim=-1) - b.mean(dim=-1)) / deviation


def checked(a: int, b: int, ddof: int) -> None:
    """See that sets of so many items have a deviation.

    Raises:
        ValueError: A or B is empty, or there are not more similarities than `ddof`.
    """
    if not a or not b:
        raise ValueError("A and B need at least one item each")
    if a + b <= ddof:
        raise ValueError(f"{a + b} similarities leave no deviation with ddof={ddof}")


def sc_eats(
    near: Float[Tensor, "n m"], a: Sequence[np.ndarray], b: np.ndarray, ddof: int = 1
) -> Float[Tensor, "n s"]:
    """`sc_eat` with each of several A against one B, as products with indicators of the sets.

    Similarities are taken from that with the first item of B: an effect size does not change with a
    shift, and where all of a target's similarities are equal their squares sum to exactly 0. As the
    shift is by one of them, its square is at most count times their variance: little is lost.

    Args:
        near: float64 similarities of N targets with M items.
        a: positions of the items of each A.
        b: those of B.
        ddof: see `sc_eat`.

    Returns:
        Effect sizes [N, S], float64; NaN where all of a target's similarities with A and B are equal.

    Raises:
        ValueError: see `sc_eat`.

    >>> sc_eats(torch.tensor([[3.0, 1.0, -1.0, 9.0]]).double(), [np.array([0, 1])], np.array([1, 2]), ddof=0)
    tensor([[1.4142]], dtype=torch.float64)
    """
    for one in a:
        checked(len(one), len(b), ddof)
    sizes = torch.tensor([len(one) for one in a], dtype=torch.float64)
    counts = sizes + len(b)
    used, first = np.unique(np.concatenate([*a, b])), near[:, b[:1]]
    if len(used) > MOST * near.shape[1]:
        used = np.arange(near.shape[1])
        shifted = near - first
    else:
        # Ascending, so that memory is read in its order; numpy takes several times as fast as torch.
        shifted = torch.from_numpy(np.take(near.numpy(), used, axis=1)).sub_(first)
    members = torch.zeros(len(a) + 1, len(used), dtype=torch.float64)
    for row, one in zip(members, [*a, b], strict=True):
        row[np.searchsorted(used, one)] = 1
    sums = shifted @ members.T
    squares = shifted.square_() @ members.T
    to_a, to_b = sums[:, :-1], sums[:, -1:]
    both = squares[:, :-1] + squares[:, -1:]
    deviation = ((both - (to_a + to_b).square() / counts) / (counts - ddof)).sqrt()
    return (to_a / sizes - to_b / len(b)) / deviation.masked_fill(both == 0, math.nan)


def eat(
    x: Float[Tensor, "x width"],
    y: Float[Tensor, "y width"],
    a: Float[Tensor, "a width"],
    b: Float[Tensor, "b width"],
    seed: int = 0,
) -> EmbeddingAssociation:
    """Association of two sets of targets with two sets of attributes.

    s(w) = mean cosine with A - mean cosine with B; d = (mean of s over X - mean over Y) / standard
    deviation of s over both, ddof = 1 (Caliskan et al. 2017; Steed & Caliskan 2021). p is exact up
    to 20,000 partitions of X and Y into sets of their sizes; beyond, true permutations are drawn:
    (1 + number at least as large) / (10,000 + 1).

    Args:
        x, y: unit vectors of the targets.
        a, b: unit vectors of the attributes.
        seed: of the draw of permutations.

    Raises:
        ValueError: a set is empty.
    """
    x, y, a, b = (torch.as_tensor(vectors).double() for vectors in (x, y, a, b))
    if 0 in (len(x), len(y), len(a), len(b)):
        raise ValueError("X, Y, A and B need at least one vector each")
    targets = torch.cat([x, y])
    s = ((targets @ a.T).mean(dim=1) - (targets @ b.T).mean(dim=1)).numpy()
    difference = s[: len(x)].mean() - s[len(x) :].mean()
    deviation = s.std(ddof=1) if s.max() > s.min() else math.nan
    return EmbeddingAssociation(float(difference / deviation), _p_value(s, len(x), seed))


def _p_value(s: np.ndarray, size: int, seed: int) -> float:
    # With fixed sizes, the difference of the means grows with the sum over X alone.
    observed = s[:size].sum() - TOLERANCE
    if math.comb(len(s), size) <= EXACT_PARTITIONS:
        sums = np.array([s[list(chosen)].sum() for chosen in combinations(range(len(s)), size)])
        return float((sums >= observed).mean())
    rng = np.random.default_rng(seed)
    drawn = rng.permuted(np.broadcast_to(s, (MONTE_CARLO_DRAWS, len(s))), axis=1)
    reached = int((drawn[:, :size].sum(axis=1) >= observed).sum())
    return (1 + reached) / (MONTE_CARLO_DRAWS + 1)
