"""Compute choice rates among three options on positive and negative items (Kamruzzaman et al. 2023).

All but tau-b and p depend on a single table of counts: its rows are the polarity of the item, positive and
negative; its columns are the answer, positive, negative, neutral, or none of the options ("unmatched").
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# Column of an answer y, by y as an index: 2 for y = 0, 0 for y = 1, 1 for y = -1 (the last).
COLUMNS = np.array([2, 0, 1])
UNMATCHED = 3
# Numeric value of each column's answer for tau.
ANSWERS = np.array([1, -1, 0, 0])


def choice_tables(
    x: Int[np.ndarray, " n"],
    y: Int[np.ndarray, " n"],
    matched: Bool[np.ndarray, " n"],
    cluster: Int[np.ndarray, " n"],
) -> Int[np.ndarray, "c 2 4"]:
    """Count answers by cluster, polarity of the item and answer.

    Args:
        x: [N], polarity of the item, 1 or -1.
        y: [N], polarity of the answer: 1, -1, or 0 for the neutral option.
        matched: [N], mask of answers that are one of the options; y is ignored elsewhere.
        cluster: [N], cluster index from 0; an index that does not occur gets a table of zeros.

    >>> ones, zeros = np.ones(3, dtype=int), np.zeros(3, dtype=int)
    >>> choice_tables(ones, np.array([1, 0, 0]), np.array([True, True, False]), zeros).tolist()
    [[[1, 0, 1, 1], [0, 0, 0, 0]]]
    """
    size = int(cluster.max()) + 1 if len(cluster) else 0
    cells = (2 * cluster + (x < 0)) * 4 + np.where(matched, COLUMNS[y], UNMATCHED)
    tables: np.ndarray = np.bincount(cells, minlength=8 * size).reshape(size, 2, 4)
    return tables


def resampled_tables(
    tables: Int[np.ndarray, "c 2 4"], weights: Int[np.ndarray, "r c"]
) -> Int[np.ndarray, "r 2 4"]:
    """Sum the tables of samples that hold cluster c weights[r, c] times.

    >>> tables = np.arange(16).reshape(2, 2, 4)
    >>> resampled_tables(tables, np.array([[0, 2]])).tolist()
    [[[16, 18, 20, 22], [24, 26, 28, 30]]]
    """
    samples: np.ndarray = np.tensordot(weights, tables, axes=1)
    return samples


def choice_rates(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 2 3"]:
    """Compute rates 100 #(x, y) / #(x, matched): rows [PPL, PNL, PNuL] and [NPL, NNL, NNuL].

    Returns:
        Rates in per cent; NaN where no answer to items of a polarity is matched.

    >>> choice_rates(np.array([[1, 0, 3, 9], [0, 0, 0, 1]])).tolist()
    [[25.0, 0.0, 75.0], [nan, nan, nan]]
    """
    chosen = tables[..., :UNMATCHED].astype(float)
    with np.errstate(invalid="ignore"):
        rates: np.ndarray = 100 * chosen / chosen.sum(axis=-1, keepdims=True)
    return rates


def rate_gaps(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 3"]:
    """Compute del_PL, del_NL, del_NuL: rates on positive minus negative items, in percentage points.

    Returns:
        Gaps, near 0 for an unbiased model; NaN where a polarity has no matched answer.

    >>> rate_gaps(np.array([[3, 0, 1, 0], [1, 1, 2, 5]])).tolist()
    [50.0, -25.0, -25.0]
    """
    rates = choice_rates(tables)
    gaps: np.ndarray = rates[..., 0, :] - rates[..., 1, :]
    return gaps


def stuart_tau_c(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r"]:
    """Compute Stuart's tau-c of the polarities of item and answer, counting unmatched answers as 0.

    2 m (P - Q) / ((m - 1) n^2) with m = 2, the smaller number of values of the two sides. Variant "c" of
    scipy's `kendalltau` counts m from the data and differs only if all answers are equal: here that is 0.

    Returns:
        Association from -1 to 1; NaN if items of only one polarity are present.

    >>> stuart_tau_c(np.array([[3, 0, 1, 0], [0, 4, 0, 0]])).item()
    1.0
    """
    counts = tables.astype(float)
    positive, negative = counts[..., 0, :], counts[..., 1, :]
    total = counts.sum(axis=(-2, -1))
    # Pairs of a positive and a negative item: 1 where the answer to the first exceeds that to the second.
    above = np.sign(np.subtract.outer(ANSWERS, ANSWERS))
    difference = ((positive @ above) * negative).sum(axis=-1)
    defined = (positive.sum(axis=-1) > 0) & (negative.sum(axis=-1) > 0)
    tau: np.ndarray = np.where(defined, 4 * difference / np.maximum(total, 1) ** 2, math.nan)
    return tau


def kendall_tau_b(x: Int[np.ndarray, " n"], y: Int[np.ndarray, " n"]) -> tuple[float, float]:
    """Compute Kendall's tau-b and the asymptotic two-sided p of no association, valid for tau-c too (scipy).

    Returns:
        tau-b and p; NaN, NaN if a side is constant. p is exact for two answers, too few for an asymptotic p.

    >>> kendall_tau_b(np.array([1, -1]), np.array([1, 0]))
    (1.0, 1.0)
    """
    if len(x) < 2:
        return math.nan, math.nan
    # x has two values, so more than two answers have ties, for which scipy returns the asymptotic p.
    test = stats.kendalltau(x, y, variant="b")
    return float(test.statistic), float(test.pvalue)
