"""What is chosen of three options on positive and on negative items (Kamruzzaman et al. 2023).

All but tau-b and p hang on one table of counts: its rows are the polarity of the item, positive and
negative; its columns the answer, positive, negative, neutral, and none of the options ("unmatched").
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# Column of an answer y = 1, -1, 0: y is the index.
COLUMNS = np.array([2, 0, 1])
UNMATCHED = 3


def choice_tables(
    x: Int[np.ndarray, " n"],
    y: Int[np.ndarray, " n"],
    matched: Bool[np.ndarray, " n"],
    cluster: Int[np.ndarray, " n"],
) -> Int[np.ndarray, "c 2 4"]:
    """Counts of answers by cluster, polarity of the item and answer.

    Args:
        x: [N], polarity of the item, 1 or -1.
        y: [N], polarity of the answer: 1, -1, or 0 for the neutral option.
        matched: [N], whether the answer is one of the options; elsewhere y tells nothing.
        cluster: [N], from 0; a number that does not occur has a table of zeros.

    >>> one, zero = np.ones(3, dtype=int), np.zeros(3, dtype=int)
    >>> choice_tables(one, np.array([1, 0, 0]), np.array([True, True, False]), zero).tolist()
    [[[1, 0, 1, 1], [0, 0, 0, 0]]]
    """
    size = int(cluster.max()) + 1 if len(cluster) else 0
    cells = (2 * cluster + (x < 0)) * 4 + np.where(matched, COLUMNS[y], UNMATCHED)
    tables: np.ndarray = np.bincount(cells, minlength=8 * size).reshape(size, 2, 4)
    return tables


def resampled_tables(
    tables: Int[np.ndarray, "c 2 4"], weights: Int[np.ndarray, "r c"]
) -> Int[np.ndarray, "r 2 4"]:
    """Tables of the samples in which cluster c stands weights[r, c] times."""
    samples: np.ndarray = weights @ tables.reshape(len(tables), 8)
    return samples.reshape(len(weights), 2, 4)


def choice_rates(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 2 3"]:
    """XYL = 100 #(x, y) / #(x, matched): PPL, PNL, PNuL in the first row, NPL, NNL, NNuL in the second.

    Returns:
        Per cent; NaN where no answer to items of a polarity is matched.

    >>> choice_rates(np.array([[1, 0, 3, 9], [0, 0, 0, 1]])).tolist()
    [[25.0, 0.0, 75.0], [nan, nan, nan]]
    """
    chosen = tables[..., :UNMATCHED].astype(float)
    matched = np.broadcast_to(chosen.sum(axis=-1, keepdims=True), chosen.shape)
    rates = np.full(chosen.shape, math.nan)
    np.divide(100 * chosen, matched, out=rates, where=matched > 0)
    return rates


def rate_gaps(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 3"]:
    """del_PL, del_NL, del_NuL: rates on positive items less those on negative ones, in percentage points.

    Returns:
        All near 0 for an unbiased model; NaN where a polarity has no matched answer.
    """
    rates = choice_rates(tables)
    gaps: np.ndarray = rates[..., 0, :] - rates[..., 1, :]
    return gaps


def stuart_tau_c(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r"]:
    """Stuart's tau-c of the polarities of item and answer, unmatched answers kept as 0.

    2 m (P - Q) / ((m - 1) n^2) with m = 2, the fewer values of the two sides: scipy's `kendalltau`, variant
    "c", for which m is what occurs. They part only where every answer is the same: that is no association, 0.

    Returns:
        From -1 to 1; NaN where there are items of one polarity only.

    >>> stuart_tau_c(np.array([[3, 0, 1, 0], [0, 4, 0, 0]])).item()
    1.0
    """
    counts = tables.astype(float)
    positive, negative = counts[..., 0, :], counts[..., 1, :]
    total = positive.sum(axis=-1) + negative.sum(axis=-1)
    difference = _above(positive, negative) - _above(negative, positive)
    defined = (positive.sum(axis=-1) > 0) & (negative.sum(axis=-1) > 0)
    tau = np.full(total.shape, math.nan)
    np.divide(4 * difference, total**2, out=tau, where=defined)
    return tau


def _above(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    # Pairs in which the answer of one is above the answer of the other.
    neither = other[..., 2] + other[..., UNMATCHED]
    pairs: np.ndarray = one[..., 0] * (other[..., 1] + neither)
    pairs += (one[..., 2] + one[..., UNMATCHED]) * other[..., 1]
    return pairs


def kendall_tau_b(x: Int[np.ndarray, " n"], y: Int[np.ndarray, " n"]) -> tuple[float, float]:
    """Kendall's tau-b, and the asymptotic two-sided p of no association, which tau-c shares (scipy).

    Returns:
        NaN, NaN where a side is constant. The p of two answers is exact: an asymptotic one needs three.
    """
    if len(x) < 2:
        return math.nan, math.nan
    # Two values of x: but for two answers there are ties, with which scipy's p is the asymptotic one.
    found = stats.kendalltau(x, y, variant="b")
    return float(found.statistic), float(found.pvalue)
