"""Compute associations of targets with two sets of attributes: SC-EAT, with large sets by QR, and EAT."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

MAX_EXACT_PARTITIONS = 20_000  # if there are more partitions, MONTE_CARLO_DRAWS random ones replace them
MONTE_CARLO_DRAWS = 10_000
MAX_PERMUTED_VALUES = 2**21  # maximum number of permuted values in memory
NULL_INTERVAL = (0.025, 0.975)  # quantiles
# A statistic that is below the observed one by no more than this counts as equal to it (rounding errors).
TOLERANCE = 1e-12
# If A and B contain at most this share of the columns, only these are copied; otherwise, all columns are.
MAX_COPIED_SHARE = 0.5
# Number of rows of a triangular factor R that are multiplied with a block of targets at once.
ROWS_PER_BLOCK = 64
# Below this standard deviation of cosines, `sc_eats_qr` returns NaN: the effect size then depends on the
# rounding of similarities to 12 decimals, so `sc_eats` must compute it.
MIN_DEVIATION = 1e-3


@dataclass(frozen=True)
class EmbeddingAssociation:
    """Result of an embedding association test (EAT).

    Attributes:
        d: effect size, in standard deviations.
        p: one-sided p, the share of partitions whose statistic is at least the observed one.
        partitions: number of partitions of the targets that d was compared with.
        is_exact: whether these are all partitions, not a random sample of them.
        null_low: 2.5th percentile of d over the partitions.
        null_high: 97.5th percentile of d over the partitions.
    """

    d: float
    p: float
    partitions: int
    is_exact: bool
    null_low: float
    null_high: float


def sc_eat(to_a: Float[Tensor, "n a"], to_b: Float[Tensor, "n b"], ddof: int = 1) -> Float[Tensor, " n"]:
    """Compute the single-category association of each target with A against B.

    es = (mean of the cosines with A - mean of those with B) / their standard deviation over the
    concatenation of A and B (Caliskan et al. 2017; Ghate et al. 2025). With |A| = |B| = n and
    ddof = 1, |es| is at most 2 sqrt((2n - 1) / (2n)): it saturates.

    Args:
        to_a: [N, |A|], similarities of N targets with the items of A.
        to_b: [N, |B|], similarities of the targets with the items of B.
        ddof: delta degrees of freedom: 1 divides the squared deviations by |A| + |B| - 1, 0 by |A| + |B|.

    Returns:
        Effect sizes [N], float64; NaN where all of a target's similarities are equal.

    Raises:
        ValueError: A or B is empty, or |A| + |B| is at most `ddof`.

    >>> sc_eat(torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, -1.0]]), ddof=0)
    tensor([1.4142], dtype=torch.float64)
    """
    a, b = torch.as_tensor(to_a).double(), torch.as_tensor(to_b).double()
    check_sizes(a.shape[-1], b.shape[-1], ddof)
    similarities = torch.cat([a, b], dim=-1)
    # Rounding can turn a standard deviation of 0 into 1e-17: compare minimum and maximum instead.
    is_constant = similarities.amax(dim=-1) == similarities.amin(dim=-1)
    deviation = similarities.std(dim=-1, correction=ddof).masked_fill(is_constant, math.nan)
    return (a.mean(dim=-1) - b.mean(dim=-1)) / deviation


def check_sizes(size_a: int, size_b: int, ddof: int) -> None:
    """Check that similarities with sets of these sizes have a standard deviation.

    Raises:
        ValueError: A or B is empty, or |A| + |B| is at most `ddof`.
    """
    if not size_a or not size_b:
        raise ValueError(f"A and B need at least one item each, got {size_a} and {size_b}")
    if size_a + size_b <= ddof:
        raise ValueError(f"{size_a + size_b} similarities have no standard deviation with ddof={ddof}")


def sc_eats(
    similarities: Float[Tensor, "n m"], a: Sequence[np.ndarray], b: np.ndarray, ddof: int = 1
) -> Float[Tensor, "n s"]:
    """Compute `sc_eat` of several sets A against one set B, by matrix products with set indicators.

    Each target's similarity with the first item of B is subtracted from all its similarities. This does not
    change effect sizes, and gives equal similarities a sum of squares of exactly 0. As the shift is one of
    the similarities, the squared mean is at most their count times their variance, so that little precision
    is lost.

    Args:
        similarities: [N, M], float64 similarities of N targets with M items.
        a: column indices of the items of each of the S sets A.
        b: column indices of the items of B.
        ddof: delta degrees of freedom, see `sc_eat`.

    Returns:
        Effect sizes [N, S], float64; NaN where all of a target's similarities with A and B are equal.

    Raises:
        ValueError: see `sc_eat`.

    >>> sc_eats(torch.tensor([[3.0, 1.0, -1.0, 9.0]]).double(), [np.array([0, 1])], np.array([1, 2]), ddof=0)
    tensor([[1.4142]], dtype=torch.float64)
    """
    for indices in a:
        check_sizes(len(indices), len(b), ddof)
    sizes_a = torch.tensor([len(indices) for indices in a], dtype=torch.float64)
    counts = sizes_a + len(b)
    columns, shift = np.unique(np.concatenate([*a, b])), similarities[:, b[:1]]
    if len(columns) > MAX_COPIED_SHARE * similarities.shape[1]:
        columns = np.arange(similarities.shape[1])
        shifted = similarities - shift
    else:
        # Ascending columns read memory in order; numpy's `take` is several times as fast as torch's.
        shifted = torch.from_numpy(np.take(similarities.numpy(), columns, axis=1)).sub_(shift)
    indicators = torch.zeros(len(a) + 1, len(columns), dtype=torch.float64)
    for row, indices in zip(indicators, [*a, b], strict=True):
        row[np.searchsorted(columns, indices)] = 1
    sums = shifted @ indicators.T
    squares = shifted.square_() @ indicators.T
    sums_a, sums_b = sums[:, :-1], sums[:, -1:]
    square_sums = squares[:, :-1] + squares[:, -1:]
    deviation = ((square_sums - (sums_a + sums_b).square() / counts) / (counts - ddof)).sqrt()
    return (sums_a / sizes_a - sums_b / len(b)) / deviation.masked_fill(square_sums == 0, math.nan)


@dataclass(frozen=True)
class SetFactors:
    """Statistics of S pairs of attribute sets A and B from which any target's SC-EAT follows.

    Attributes:
        mean_differences: [D, S], mean vector of A minus mean vector of B.
        triangles: the R of all pairs (see `factorise`) in blocks of `ROWS_PER_BLOCK` rows, each transposed,
            [D - first row, S x rows]: the columns left of the diagonal, which are 0, are omitted.
    """

    mean_differences: Float[Tensor, "width s"]
    triangles: list[Tensor]


def factorise(
    items: Float[Tensor, "m width"], a: Sequence[np.ndarray], b: Sequence[np.ndarray], ddof: int = 1
) -> SetFactors:
    """Compute the factor R of X = QR for each pair of sets A and B, for `sc_eats_qr`.

    The rows of X are the vectors of A and B minus their common mean, divided by sqrt(|A| + |B| - ddof). For a
    target w, |Xw| = |Rw| is the standard deviation of its cosines.

    Args:
        items: [M, D], float64 unit vectors of the items.
        a: row indices of the items of A of each pair.
        b: row indices of the items of B of each pair.
        ddof: delta degrees of freedom, see `sc_eat`.

    Raises:
        ValueError: see `sc_eat`.

    >>> factorise(torch.eye(2).double(), [np.array([0])], [np.array([1])]).mean_differences.T
    tensor([[ 1., -1.]], dtype=torch.float64)
    """
    width, mean_differences, triangles = items.shape[1], [], []
    for rows_a, rows_b in zip(a, b, strict=True):
        check_sizes(len(rows_a), len(rows_b), ddof)
        vectors_a, vectors_b = items[rows_a], items[rows_b]
        mean_differences.append(vectors_a.mean(dim=0) - vectors_b.mean(dim=0))
        vectors = torch.cat([vectors_a, vectors_b])
        r = torch.linalg.qr((vectors - vectors.mean(dim=0)) / math.sqrt(len(vectors) - ddof), mode="r").R
        triangles.append(torch.nn.functional.pad(r, (0, 0, 0, width - len(r))))
    stacked = torch.stack(triangles)
    starts = range(0, width, ROWS_PER_BLOCK)
    blocks = [
        stacked[:, start : start + ROWS_PER_BLOCK, start:].permute(2, 0, 1).flatten(1) for start in starts
    ]
    return SetFactors(torch.stack(mean_differences, dim=1), blocks)


def sc_eats_qr(x: Float[Tensor, "n width"], factors: SetFactors) -> Float[Tensor, "n s"]:
    """Compute `sc_eats` from `factorise`, without computing cosines.

    Args:
        x: [N, D], float64 unit vectors of the targets.
        factors: result of `factorise` for the S pairs of attribute sets.

    Returns:
        Effect sizes [N, S]; NaN where the standard deviation of the cosines is below `MIN_DEVIATION`, as the
        effect size then depends on the rounding of `cosines` and has to be computed by `sc_eats`.

    >>> items = torch.eye(2).double()
    >>> sc_eats_qr(items, factorise(items, [np.array([0])], [np.array([1])]))
    tensor([[ 1.4142],
            [-1.4142]], dtype=torch.float64)
    """
    squares = torch.zeros(len(x), factors.mean_differences.shape[1], dtype=torch.float64)
    for index, triangle in enumerate(factors.triangles):
        products = x[:, index * ROWS_PER_BLOCK :] @ triangle
        squares += products.square_().view(*squares.shape, -1).sum(dim=2)
    deviation = squares.sqrt_()
    return (x @ factors.mean_differences) / deviation.masked_fill_(deviation < MIN_DEVIATION, math.nan)


def eat(
    x: Float[Tensor, "x width"],
    y: Float[Tensor, "y width"],
    a: Float[Tensor, "a width"],
    b: Float[Tensor, "b width"],
    seed: int = 0,
) -> EmbeddingAssociation:
    """Compute the association of two sets of targets, X and Y, with two sets of attributes, A and B (EAT).

    s(w) = mean cosine with A - mean cosine with B; d = (mean of s over X - mean over Y) / standard
    deviation of s over both, ddof = 1 (Caliskan et al. 2017; Steed & Caliskan 2021). p is exact if X and Y
    have at most 20,000 partitions into sets of their sizes. Otherwise 10,000 permutations are drawn, and
    p = (1 + number of permutations with a statistic of at least the observed one) / (10,000 + 1).

    Args:
        x: [|X|, D], unit vectors of the first set of targets.
        y: [|Y|, D], unit vectors of the second set of targets.
        a: [|A|, D], unit vectors of the first set of attributes.
        b: [|B|, D], unit vectors of the second set of attributes.
        seed: random seed of the permutations.

    Raises:
        ValueError: a set is empty.

    >>> east, north = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> eat(east, north, east, north).p
    0.5
    """
    x, y, a, b = (torch.as_tensor(vectors).double() for vectors in (x, y, a, b))
    if 0 in (len(x), len(y), len(a), len(b)):
        raise ValueError("X, Y, A and B need at least one vector each")
    targets = torch.cat([x, y])
    s = ((targets @ a.T).mean(dim=1) - (targets @ b.T).mean(dim=1)).numpy()
    return compare_associations(s[: len(x)], s[len(x) :], seed)


def compare_associations(
    x: Float[np.ndarray, " x"], y: Float[np.ndarray, " y"], seed: int = 0
) -> EmbeddingAssociation:
    """Compute `eat` from the associations s(w) of the targets.

    Args:
        x: [|X|], mean cosine with A minus mean cosine with B of each target of the first set.
        y: [|Y|], the same of the second set.
        seed: random seed of the permutations.

    Raises:
        ValueError: a set is empty.

    >>> result = compare_associations(np.array([3.0, 2.0]), np.array([1.0, 0.0]))
    >>> round(result.d, 3), round(result.p, 3), result.partitions
    (1.549, 0.167, 6)
    """
    if not len(x) or not len(y):
        raise ValueError(f"X and Y need at least one target each, got {len(x)} and {len(y)}")
    s, size = np.concatenate([x, y]), len(x)
    deviation = s.std(ddof=1) if s.max() > s.min() else math.nan
    # With fixed sizes, the difference of the means increases with the sum over X, which is used as statistic.
    partitions = math.comb(len(s), size)
    is_exact = partitions <= MAX_EXACT_PARTITIONS
    if is_exact:
        sums = np.array([s[list(subset)].sum() for subset in combinations(range(len(s)), size)])
    else:
        partitions = MONTE_CARLO_DRAWS
        sums = _permuted_sums(s, size, seed)
    count = int((sums >= x.sum() - TOLERANCE).sum())
    differences = sums / size - (s.sum() - sums) / len(y)
    low, high = np.quantile(differences, NULL_INTERVAL) / deviation
    return EmbeddingAssociation(
        d=float((x.mean() - y.mean()) / deviation),
        p=count / partitions if is_exact else (1 + count) / (partitions + 1),
        partitions=partitions,
        is_exact=is_exact,
        null_low=float(low),
        null_high=float(high),
    )


def _permuted_sums(s: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Draw `MONTE_CARLO_DRAWS` permutations and sum the first `size` values of each, some rows at a time."""
    rng, sums = np.random.default_rng(seed), np.empty(MONTE_CARLO_DRAWS)
    rows = max(1, MAX_PERMUTED_VALUES // len(s))
    for start in range(0, MONTE_CARLO_DRAWS, rows):
        block = sums[start : start + rows]
        block[:] = rng.permuted(np.broadcast_to(s, (len(block), len(s))), axis=1)[:, :size].sum(axis=1)
    return sums


def point_biserial(
    s: Float[np.ndarray, " n"], is_x: Bool[np.ndarray, " n"], remaining: Bool[np.ndarray, "g n"]
) -> Float[np.ndarray, " g"]:
    """Compute the correlation of the targets' associations with membership of X, in each of G subsamples.

    The d of `eat` is this correlation times sqrt(N (N - 1) / (|X| |Y|)), with N = |X| + |Y|.

    Args:
        s: [N], association of each target.
        is_x: [N], whether a target is of X; the others are of Y.
        remaining: [G, N], the targets in each subsample.

    Returns:
        Correlations [G]; NaN where X or Y is empty, or all associations are equal.

    >>> s, is_x = np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, True, False, False])
    >>> point_biserial(s, is_x, np.ones((1, 4), dtype=bool)).round(3).tolist()
    [0.894]
    """
    count = remaining.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (remaining & is_x).sum(axis=1) / count
        mean = remaining @ s / count
        centred = np.where(remaining, s - mean[:, None], 0)
        deviation = np.sqrt((centred**2).sum(axis=1) / count)
        covariance = centred @ is_x / count
        is_defined = (np.ptp(centred, axis=1) > TOLERANCE) & (share > 0) & (share < 1)
        return np.where(is_defined, covariance / (deviation * np.sqrt(share * (1 - share))), np.nan)
