"""Compute choice rates among three options on positive and negative items (Kamruzzaman et al. 2024).

All measures except tau-b and its p follow from a table of counts. Its rows are the polarities of items
(positive, negative), its columns the answers (positive, negative, neutral, unmatched: none of the options).
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

# Column of an answer, by its polarity: 0, 1, or -1, which indexes the last element.
COLUMN_BY_POLARITY = np.array([2, 0, 1])
UNMATCHED = 3
# Polarity of each column's answer, for tau; unmatched answers count as 0.
ANSWER_POLARITIES = np.array([1, -1, 0, 0])


def choice_tables(
    x: Int[np.ndarray, " n"],
    y: Int[np.ndarray, " n"],
    is_matched: Bool[np.ndarray, " n"],
    cluster: Int[np.ndarray, " n"],
) -> Int[np.ndarray, "c 2 4"]:
    """Count answers by cluster, polarity of the item and answer.

    Args:
        x: [N], polarity of each item, 1 or -1.
        y: [N], polarity of each answer: 1, -1, or 0 for the neutral option.
        is_matched: [N], whether an answer is one of the options; if not, its y is ignored.
        cluster: [N], cluster index from 0.

    Returns:
        Counts [C, 2, 4]; zeros for an index of a cluster that does not occur.

    >>> ones, zeros = np.ones(3, dtype=int), np.zeros(3, dtype=int)
    >>> choice_tables(ones, np.array([1, 0, 0]), np.array([True, True, False]), zeros).tolist()
    [[[1, 0, 1, 1], [0, 0, 0, 0]]]
    """
    n_clusters = int(cluster.max()) + 1 if len(cluster) else 0
    cells = (2 * cluster + (x < 0)) * 4 + np.where(is_matched, COLUMN_BY_POLARITY[y], UNMATCHED)
    return np.asarray(np.bincount(cells, minlength=8 * n_clusters).reshape(n_clusters, 2, 4))


def resampled_tables(
    tables: Int[np.ndarray, "c 2 4"], weights: Int[np.ndarray, "r c"] | Bool[np.ndarray, "r c"]
) -> Int[np.ndarray, "r 2 4"]:
    """Sum the tables of each resample r, in which cluster c occurs `weights[r, c]` times.

    >>> tables = np.arange(16).reshape(2, 2, 4)
    >>> resampled_tables(tables, np.array([[0, 2]])).tolist()
    [[[16, 18, 20, 22], [24, 26, 28, 30]]]
    """
    return np.asarray(np.tensordot(weights, tables, axes=1))


def choice_rates(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 2 3"]:
    """Compute how often each answer is chosen on positive and on negative items, in per cent.

    Returns:
        Rows: positive and negative items. Columns: per cent of positive, negative and neutral answers (the
        paper's PPL, PNL, PNuL; NPL, NNL, NNuL) among matched ones; NaN in a row without a matched answer.

    >>> choice_rates(np.array([[1, 0, 3, 9], [0, 0, 0, 1]])).tolist()
    [[25.0, 0.0, 75.0], [nan, nan, nan]]
    """
    matched_counts = tables[..., :UNMATCHED].astype(float)
    with np.errstate(invalid="ignore"):
        return np.asarray(100 * matched_counts / matched_counts.sum(axis=-1, keepdims=True))


def rate_gaps(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r 3"]:
    """Compute the choice rates on positive items minus those on negative items.

    Returns:
        Gaps of positive, negative and neutral answers (the paper's del_PL, del_NL, del_NuL) in percentage
        points, near 0 for an unbiased model; NaN where items of a polarity have no matched answer.

    >>> rate_gaps(np.array([[3, 0, 1, 0], [1, 1, 2, 5]])).tolist()
    [50.0, -25.0, -25.0]
    """
    rates = choice_rates(tables)
    return np.asarray(rates[..., 0, :] - rates[..., 1, :])


def stuart_tau_c(tables: Int[np.ndarray, "*r 2 4"]) -> Float[np.ndarray, "*r"]:
    """Compute Stuart's tau-c of the polarities of item and answer, counting unmatched answers as 0.

    tau-c = 2 m (P - Q) / ((m - 1) n^2), where P and Q count concordant and discordant pairs, and m = 2 is the
    number of polarities of items. scipy's `kendalltau` takes m from the distinct values in the data, so the
    two differ only if all answers are equal: this function then returns 0.

    Returns:
        Association from -1 to 1; NaN if items of only one polarity are present.

    >>> stuart_tau_c(np.array([[3, 0, 1, 0], [0, 4, 0, 0]])).item()
    1.0
    """
    counts = tables.astype(float)
    positive, negative = counts[..., 0, :], counts[..., 1, :]
    total = counts.sum(axis=(-2, -1))
    # Sign of the difference between the answer to a positive item (row) and to a negative item (column).
    signs = np.sign(np.subtract.outer(ANSWER_POLARITIES, ANSWER_POLARITIES))
    concordant_minus_discordant = ((positive @ signs) * negative).sum(axis=-1)
    is_defined = (positive.sum(axis=-1) > 0) & (negative.sum(axis=-1) > 0)
    tau_c = 4 * concordant_minus_discordant / np.maximum(total, 1) ** 2
    return np.asarray(np.where(is_defined, tau_c, math.nan))


def kendall_tau_b(x: Int[np.ndarray, " n"], y: Int[np.ndarray, " n"]) -> tuple[float, float]:
    """Compute Kendall's tau-b and its asymptotic two-sided p, which is also valid for tau-c (scipy).

    Returns:
        tau-b and p; NaN, NaN if x or y is constant. For only two answers, p is exact instead of asymptotic.

    >>> kendall_tau_b(np.array([1, -1]), np.array([1, 0]))
    (1.0, 1.0)
    """
    if len(x) < 2:
        return math.nan, math.nan
    # x has two values, so three or more answers have ties, for which scipy returns the asymptotic p.
    test = stats.kendalltau(x, y, variant="b")
    return float(test.statistic), float(test.pvalue)
