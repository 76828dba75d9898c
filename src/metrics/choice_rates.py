"""Compute choice rates among three options on positive and negative items (Kamruzzaman et al. 2023).

All measures but tau-b and its p follow from a table of counts. Its rows are polarities of items: positive,
negative. Its columns are answers: positive, negative, neutral, and unmatched (none of the options).
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# COLUMNS[y] is the column of answer y: 2 for y = 0, 0 for y = 1, 1 for y = -1 (the last element).
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
        x: [N], polarity of each item, 1 or -1.
        y: [N], polarity of each answer: 1, -1, or 0 for the neutral option.
        matched: [N], mask of answers that are one of the options; y is ignored elsewhere.
        cluster: [N], cluster index from 0; an index that does not occur gets a table of zeros.

    >>> ones, zeros = np.ones(3, dtype=int), np.zeros(3, dtype=int)
    >>> choice_tables(ones, np.array([1, 0, 0]), np.array([True, True, False]), zeros).tolist()
    [[[1, 0, 1, 1], [0, 0, 0, 0]]]
    """
    n_clusters = int(cluster.max()) + 1 if len(cluster) else 0
    cells = (2 * cluster + (x < 0)) * 4 + np.where(matched, COLUMNS[y], UNMATCHED)
    return np.asarray(np.bincount(cells, minlength=8 * n_clusters).reshape(n_clusters, 2, 4))


def resampled_tables(
    tables: Int[np.ndarray, "c 2 4"], weights: Int[np.ndarray, "r c"] | Bool[np.ndarray, "r c"]
) -> Int[np.ndarray, "r 2 4"]:
    """Sum the tables of each sample r, which contains cluster c weights[r, c] times.

    >>> tables = np.arange(16).reshape(2, 2, 4)
    >>> resampled_tables(tables, np.array([[0, 2]])).tolist()
    [[[16, 18, 20, 22], [24, 26, 28, 30]]]
    """
    return np.asarray(np.tensordot(weights, tables, axes=1))


def choice_rates(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 2 3"]:
    """Compute rates 100 #(x, y) / #(x, matched): rows [PPL, PNL, PNuL] and [NPL, NNL, NNuL].

    Returns:
        Rates in per cent; NaN where no answer to items of a polarity is matched.

    >>> choice_rates(np.array([[1, 0, 3, 9], [0, 0, 0, 1]])).tolist()
    [[25.0, 0.0, 75.0], [nan, nan, nan]]
    """
    matched = tables[..., :UNMATCHED].astype(float)
    with np.errstate(invalid="ignore"):
        return np.asarray(100 * matched / matched.sum(axis=-1, keepdims=True))


def rate_gaps(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 3"]:
    """Compute del_PL, del_NL, del_NuL: rates on positive minus negative items, in percentage points.

    Returns:
        Gaps, near 0 for an unbiased model; NaN where a polarity has no matched answer.

    >>> rate_gaps(np.array([[3, 0, 1, 0], [1, 1, 2, 5]])).tolist()
    [50.0, -25.0, -25.0]
    """
    rates = choice_rates(tables)
    return np.asarray(rates[..., 0, :] - rates[..., 1, :])


def stuart_tau_c(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r"]:
    """Compute Stuart's tau-c of the polarities of item and answer, counting unmatched answers as 0.

    tau-c = 2 m (P - Q) / ((m - 1) n^2), where m = 2 is the number of polarities of items. `kendalltau` of
    scipy counts m in the data and differs only if all answers are equal, where tau-c is 0 here.

    Returns:
        Association from -1 to 1; NaN if items of only one polarity are present.

    >>> stuart_tau_c(np.array([[3, 0, 1, 0], [0, 4, 0, 0]])).item()
    1.0
    """
    counts = tables.astype(float)
    positive, negative = counts[..., 0, :], counts[..., 1, :]
    total = counts.sum(axis=(-2, -1))
    # Sign of the difference between the answer to a positive item (row) and to a negative item (column).
    signs = np.sign(np.subtract.outer(ANSWERS, ANSWERS))
    difference = ((positive @ signs) * negative).sum(axis=-1)
    defined = (positive.sum(axis=-1) > 0) & (negative.sum(axis=-1) > 0)
    return np.asarray(np.where(defined, 4 * difference / np.maximum(total, 1) ** 2, math.nan))


def kendall_tau_b(x: Int[np.ndarray, " n"], y: Int[np.ndarray, " n"]) -> tuple[float, float]:
    """Compute Kendall's tau-b and its asymptotic two-sided p, which is also valid for tau-c (scipy).

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
