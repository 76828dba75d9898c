"""Retrieve the k items of a corpus most similar to a target and average their outcome."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from src.metrics.similarity import cosines, inner_products, paired_cosines

# Maximum share of uncertain similarities to compute pair by pair; above it, all similarities are computed.
MAX_UNCERTAIN_SHARE = 0.05
# Number of evenly spaced values of a row from which the k-th largest is estimated.
SAMPLE_SIZE = 1024
# Rows with fewer than MIN_SAMPLE_STEP * SAMPLE_SIZE values are searched in full instead.
MIN_SAMPLE_STEP = 4
# Minimum number of values for which several threads are used.
MIN_THREADED = 2**18

# (rows [P], columns [P]) -> exact values at these positions [P].
ExactValues = Callable[[np.ndarray, np.ndarray], np.ndarray]


def top_k(similarities: Float[Tensor, "n m"], k: int) -> Int[Tensor, "n k"]:
    """Return the positions of each row's k most similar items, most similar first; ties keep their order.

    Args:
        similarities: [N, M], finite.
        k: number of items, from 1 to M.

    Returns:
        Positions [N, k].

    Raises:
        ValueError: k is out of range.

    >>> import torch
    >>> top_k(torch.tensor([[0.1, 0.9, 0.5, 0.9, 0.5]]), 3)
    tensor([[1, 3, 2]])
    """
    positions = retrieve(similarities, k)
    # Positions are ascending, so a stable sort leaves ties in order of position.
    order = similarities.gather(1, positions).argsort(dim=1, descending=True, stable=True)
    return positions.gather(1, order)


def retrieve(similarities: Float[Tensor, "n m"], k: int) -> Int[Tensor, "n k"]:
    """Return the positions of `top_k` in ascending order, which is faster and suffices for mean outcomes.

    Args:
        similarities: [N, M], finite.
        k: number of items, from 1 to M.

    Returns:
        Positions [N, k], ascending.

    Raises:
        ValueError: k is out of range.

    >>> import torch
    >>> retrieve(torch.tensor([[0.1, 0.9, 0.5, 0.9, 0.5]]), 3)
    tensor([[1, 2, 3]])
    """
    if _includes_all(similarities.shape[1], k):
        return torch.arange(k).expand(len(similarities), -1)
    # Rounding preserves order, so only items that equal the k-th in float32 have to be compared in float64.
    float64_values = similarities.numpy()
    return find_largest(similarities.float(), k, lambda rows, columns: float64_values[rows, columns])


def retrieve_screened(
    x: Float[Tensor, "n *qx width"],
    y: Float[Tensor, "m *qy width"],
    y_float32: Float[Tensor, "m *qy width"],
    k: int,
) -> Int[Tensor, "n k"]:
    """Return `retrieve(cosines(x, y), k)` in half the time, by screening items with float32 products.

    The float32 product of two unit vectors of width D has an error of at most (D + 8) / 2^24, in any order of
    summation (Higham 2002, section 3.1). Items whose product exceeds the k-th largest by more than twice this
    error are retrieved, and items that fall short of it by more are not. The few remaining items of each row
    are compared in float64.

    Args:
        x: float64 unit vectors of the targets, see `cosines`.
        y: float64 unit vectors of the corpus, see `cosines`.
        y_float32: y in float32, converted once by callers that process blocks of x.
        k: number of items, from 1 to M.

    Returns:
        Positions [N, k], ascending.

    Raises:
        ValueError: k is out of range.

    >>> import torch
    >>> x, y = torch.eye(2).double()[:1], torch.eye(2).double()
    >>> retrieve_screened(x, y, y.float(), 1)
    tensor([[0]])
    """
    if _includes_all(len(y), k):
        return torch.arange(k).expand(len(x), -1)
    slack = 2 * (x.shape[-1] + 8) * 2.0**-24

    def exact_values(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        targets = slice(rows[0], rows[-1] + 1)
        if len(rows) < MAX_UNCERTAIN_SHARE * (targets.stop - targets.start) * len(y):
            return paired_cosines(x, y, rows, columns)
        return np.asarray(cosines(x[targets], y).numpy()[rows - targets.start, columns])

    return find_largest(inner_products(x.float(), y_float32), k, exact_values, slack)


def _includes_all(size: int, k: int) -> bool:
    if not 1 <= k <= size:
        raise ValueError(f"k={k} of a corpus of {size} items: from 1 to {size} can be retrieved")
    return k == size


def merge_tile(
    values: Float[Tensor, "n previous"],
    positions: Int[Tensor, "n previous"],
    similarities: Float[Tensor, "n t"],
    tile_positions: Int[Tensor, " t"],
    k: int,
) -> tuple[Float[Tensor, "n best"], Int[Tensor, "n best"]]:
    """Merge the next tile of a corpus into the result of `retrieve` for all previous tiles.

    Args:
        values: [N, P], largest similarities of the previous tiles; [N, 0] for the first tile.
        positions: [N, P], positions of these similarities in the corpus.
        similarities: [N, T], similarities with the items of the tile, finite.
        tile_positions: [T], positions of these items in the corpus, ascending, after all previous tiles.
        k: number of items, from 1.

    Returns:
        Similarities and positions of the k most similar items so far (all if there are fewer), in ascending
        order of position; of equal items, the first are included.

    >>> import torch
    >>> tile, none = torch.tensor([[0.5, 0.1]]), torch.empty(1, 0)
    >>> first = merge_tile(none, none.long(), tile, torch.tensor([0, 1]), 2)
    >>> merge_tile(*first, tile, torch.tensor([2, 3]), 2)[1]
    tensor([[0, 2]])
    """
    if values.shape[1] < k:
        columns = retrieve(similarities, min(k, similarities.shape[1]))
        new_values, new_positions = similarities.gather(1, columns), tile_positions[columns]
    else:
        # Few items of a later tile are among the k best so far, so searching for them is faster than sorting.
        tile = similarities.numpy()
        # Items that equal the k-th so far come after it and are excluded.
        bounds = np.nextafter(values.amin(dim=1).numpy(), np.inf)
        rows, tile_columns, candidates = find_values_above(tile, bounds)
        new_values = torch.from_numpy(pad_rows(rows, candidates, len(values)))
        candidate_positions = tile_positions.numpy()[tile_columns]
        new_positions = torch.from_numpy(pad_rows(rows, candidate_positions, len(values), fill=0))
    # Items of earlier tiles have lower positions and come first, so columns stay in order of position.
    values, positions = torch.cat([values, new_values], dim=1), torch.cat([positions, new_positions], dim=1)
    best = retrieve(values, min(k, values.shape[1]))
    return values.gather(1, best), positions.gather(1, best)


def mean_outcome(nearest: Int[Tensor, "n k"], outcomes: Float[Tensor, "m s"]) -> Float[Tensor, "n s"]:
    """Compute the mean outcome of the retrieved items (Ghate et al. 2025, Algorithm 1).

    Args:
        nearest: [N, k], positions in the corpus, see `top_k`.
        outcomes: [M, S], value of each item for each of S outcomes: its valence, or 1 if it is in a
            group and 0 if not.

    Returns:
        [N, S], float64: mean valence, or share of the group.

    >>> import torch
    >>> mean_outcome(torch.tensor([[1, 2]]), torch.tensor([[1.0], [0.2], [0.4]]))
    tensor([[0.3000]], dtype=torch.float64)
    """
    # For one outcome at a time, numpy copies only the retrieved items, which takes a quarter of the time.
    n_outcomes, values = outcomes.shape[1], outcomes.double().numpy().reshape(-1)
    flat_indices, means = nearest.numpy() * n_outcomes, np.empty((len(nearest), n_outcomes))
    for outcome in range(n_outcomes):
        values.take(flat_indices).mean(axis=1, out=means[:, outcome])
        flat_indices += 1
    return torch.from_numpy(means)


def find_largest(values: Tensor, k: int, exact_values: ExactValues, slack: float = 0.0) -> Tensor:
    """Return the columns of the k largest values of each row, [N, k], ascending; of equal values, the first.

    Rows are processed in several threads.

    Args:
        values: [N, M], finite, with errors below half the slack.
        k: number of values, from 1 to M.
        exact_values: function that computes values without errors, to compare values within the slack of the
            k-th largest.
        slack: difference above which the order of two values is certain.
    """
    # numpy uses a single core but releases the interpreter lock. Small inputs do not justify threads, for
    # each of which the allocator retains memory.
    threads = torch.get_num_threads() if values.numel() >= MIN_THREADED else 1
    chunks = np.array_split(values.numpy(), threads)
    starts = np.cumsum([0, *map(len, chunks[:-1])]).tolist()
    select = partial(_find_largest_in_chunk, k=k, exact_values=exact_values, slack=slack)
    if threads == 1:
        return torch.from_numpy(select(chunks[0], 0))
    with ThreadPoolExecutor(threads) as pool:
        return torch.from_numpy(np.concatenate([*pool.map(select, chunks, starts)]))


def _find_largest_in_chunk(
    values: np.ndarray, start: int, k: int, exact_values: ExactValues, slack: float
) -> np.ndarray:
    rows, columns, is_certain = _find_candidates(values, k, slack)
    uncertain = np.flatnonzero(~is_certain)
    if len(uncertain):
        exact = exact_values(rows[uncertain] + start, columns[uncertain])
        n_missing = k - np.bincount(rows[is_certain], minlength=len(values))
        # A stable sort leaves equal values in order of position.
        uncertain = uncertain[np.lexsort((-exact, rows[uncertain]))]
        uncertain_rows = rows[uncertain]
        rank = np.arange(len(uncertain_rows)) - np.searchsorted(uncertain_rows, uncertain_rows)
        is_certain[uncertain[rank < n_missing[uncertain_rows]]] = True
        columns = columns[is_certain]
    return np.asarray(columns.reshape(-1, k))


def _find_candidates(values: np.ndarray, k: int, slack: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows and columns of candidates for the k largest values, and whether each is certain.

    Candidates are ordered by row and column.
    """
    floor, is_kth = _estimate_bound(values, k)
    rows, columns, candidates = find_values_above(values, floor - slack)
    if is_kth:
        if len(rows) == k * len(values):
            return rows, columns, np.ones(len(rows), dtype=bool)
        return rows, columns, candidates > (floor + slack).take(rows)
    bounds = _find_kth_largest(pad_rows(rows, candidates, len(values)), k)
    # If the estimated floor is too high, a row has fewer than k values above it and is searched in full.
    if (too_low := bounds < floor).any():
        bounds[too_low] = _find_kth_largest(values[too_low], k)
        rows, columns, candidates = find_values_above(values, bounds - slack)
    near_bound = np.flatnonzero(candidates >= (bounds - slack).take(rows))
    rows, columns, candidates = (array.take(near_bound) for array in (rows, columns, candidates))
    return rows, columns, candidates > (bounds + slack).take(rows)


def _estimate_bound(values: np.ndarray, k: int) -> tuple[np.ndarray, bool]:
    """Estimate a lower bound of each row's k largest, [N], and return whether it is the k-th largest."""
    step = max(1, values.shape[1] // SAMPLE_SIZE)
    expected = k / step
    # Four standard deviations above the expected number of the k largest in the sample.
    rank = math.ceil(expected + 4 * math.sqrt(expected))
    if step < MIN_SAMPLE_STEP or rank > SAMPLE_SIZE / 2:
        return _find_kth_largest(values, k), True
    return _find_kth_largest(values[:, ::step], rank), False


def _find_kth_largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the k-th largest value of each row, [N]; minus infinity for rows with fewer values."""
    index = values.shape[1] - k
    if index < 0:
        return np.full(len(values), -np.inf, values.dtype)
    return np.partition(values, index, axis=1)[:, index]


def find_values_above(values: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows, columns and values of all values at or above their row's bound, by row and column."""
    n_rows, n_columns = values.shape
    flat = np.flatnonzero(values >= bounds[:, None])
    # Few values are above: to find where each row begins among them is faster than to count each row.
    ends = np.searchsorted(flat, n_columns * np.arange(n_rows + 1))
    rows = np.repeat(np.arange(n_rows), np.diff(ends))
    # Indexing by flat indices is several times as fast as by pairs of indices.
    return rows, flat - rows * n_columns, values.reshape(-1).take(flat)


def pad_rows(rows: np.ndarray, values: np.ndarray, count: int, fill: float = -np.inf) -> np.ndarray:
    """Arrange values by their row, [count, length of the longest row], padded with `fill`."""
    counts = np.bincount(rows, minlength=count)
    table = np.full((count, counts.max(initial=0)), fill, values.dtype)
    table[rows, np.arange(len(rows)) - (counts.cumsum() - counts)[rows]] = values
    return table
