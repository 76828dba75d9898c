"""Estimate variance components of crossed factors by MINQUE(0) (Rao 1971); any cells may be missing.

See docs/methods.md, section 6.15.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

REST = "rest"
# Ratio of the smallest to the largest eigenvalue below which the system is singular.
TOLERANCE = 1e-9
SINGULAR = "singular system: the filled cells do not identify all components"

Terms = dict[str, Int[np.ndarray, " n"]]


@dataclass(frozen=True)
class Components:
    """Variance components.

    Attributes:
        variances: term (factor, pair of factors, or `rest`) -> variance; NaN if undefined. An estimate may be
            negative by chance if the true variance is small.
        terms: term -> index of each observation's level, [N].
        reason: why the variances are undefined; empty if they are defined.
    """

    variances: Mapping[str, float]
    terms: Terms
    reason: str = ""

    def shares(self) -> dict[str, float]:
        """Return the share of each component in the total variance; negative components count as 0."""
        positive = {name: max(variance, 0.0) for name, variance in self.variances.items()}
        total = sum(positive.values())
        return {name: variance / total if total else math.nan for name, variance in positive.items()}

    def generalisability(self, of: str, fixed: Collection[str] = ()) -> float:
        """Compute the generalisability coefficient of the means of a factor's levels (Brennan 2001).

        Terms without the factor do not contribute, as they are the same for all its levels. A mean weights
        its observations equally: the variance of a term is multiplied by the sum of the squared shares of its
        levels, averaged over the means, which is 1/n if all cells are filled.

        Args:
            of: factor whose means are compared.
            fixed: factors whose observed levels are all levels of interest; their interactions with `of`
                count as true variance.

        Returns:
            Share of the means' variance that is true, from 0 to 1; negative components count as 0.

        >>> data = {"model": [*"aabbccaabbcc"], "exp": [1, 2] * 6}
        >>> components = variance_components([1, 2, 3, 4, 8, 9, 1, 3, 3, 5, 9, 9], data)
        >>> round(components.generalisability("model"), 3)
        0.994
        """
        if self.reason:
            return math.nan
        positive = {name: max(variance, 0.0) for name, variance in self.variances.items()}
        true = {of, *(pair for other in fixed for pair in (f"{of}:{other}", f"{other}:{of}"))}
        specific = {
            name: positive[name] * _average_squared_shares(levels, self.terms[of])
            for name, levels in self.terms.items()
            if _is_nested(levels, self.terms[of])
        }
        total = sum(specific.values())
        return sum(value for name, value in specific.items() if name in true) / total if total else math.nan


def variance_components(values: ArrayLike, factors: Mapping[str, ArrayLike]) -> Components:
    """Estimate the variances of random factors, of pairs of factors, and of the rest, by MINQUE(0).

    The estimates solve tr(M V_f M V_h) v = y'M V_f M y, where V_f = Z_f Z_f' and M centres. They are unbiased
    whichever cells are missing, and equal the estimates by ANOVA if all cells are filled equally often.

    Args:
        values: [N], finite values.
        factors: factor -> level of each observation, [N]. A pair is left out if one factor is nested in the
            other, as it would have the same levels.

    >>> data = {"model": [*"aabbccaabbcc"], "exp": [1, 2] * 6}
    >>> components = variance_components([1, 2, 3, 4, 8, 9, 1, 3, 3, 5, 9, 9], data)
    >>> {name: round(variance, 3) for name, variance in components.variances.items()}
    {'model': 12.917, 'exp': 0.625, 'model:exp': 0.042, 'rest': 0.25}
    """
    y = np.asarray(values, dtype=float)
    terms = _build_terms(
        {name: _encode_levels(np.asarray(levels)) for name, levels in factors.items()}, len(y)
    )
    names = [*terms]
    system = np.zeros((len(names), len(names)))
    for row, column in zip(*np.triu_indices(len(names)), strict=True):
        system[row, column] = _compute_trace(terms[names[row]], terms[names[column]])
    system = np.triu(system) + np.triu(system, 1).T
    scale = np.sqrt(np.diag(system))
    if (scale <= 0).any() or _is_singular(system / np.outer(scale, scale)):
        return Components(dict.fromkeys(names, math.nan), terms, SINGULAR)
    centred = y - y.mean()
    squares = np.array([(np.bincount(levels, centred) ** 2).sum() for levels in terms.values()])
    variances = np.linalg.solve(system / np.outer(scale, scale), squares / scale) / scale
    return Components(dict(zip(names, variances.tolist(), strict=True)), terms)


def _encode_levels(levels: np.ndarray) -> Int[np.ndarray, " n"]:
    """Replace each level by its index among the sorted levels."""
    return np.asarray(np.unique(levels, return_inverse=True)[1]).reshape(-1)


def _build_terms(factors: Terms, count: int) -> Terms:
    """Add pairs of factors, and the rest, each of whose levels is a single observation."""
    terms = dict(factors)
    for (first, a), (second, b) in combinations(factors.items(), 2):
        if not _is_nested(a, b) and not _is_nested(b, a):
            terms[f"{first}:{second}"] = _encode_levels(_index_cells(a, b))
    return terms | {REST: np.arange(count)}


def _index_cells(first: np.ndarray, second: np.ndarray) -> Int[np.ndarray, " n"]:
    """Return the index of each observation's cell in the table of two terms."""
    return np.asarray(first * (int(second.max(initial=0)) + 1) + second)


def _is_nested(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether each level of the first term occurs with only one level of the second."""
    return len(np.unique(_index_cells(first, second))) == len(np.unique(first))


def _compute_trace(first: np.ndarray, second: np.ndarray) -> float:
    """Compute tr(M V_f M V_h), the sum of squares of Z_f' M Z_h, from the counts of the filled cells."""
    cells, counts = np.unique(_index_cells(first, second), return_counts=True)
    sizes_a, sizes_b = np.bincount(first).astype(float), np.bincount(second).astype(float)
    a, b = np.divmod(cells, len(sizes_b))
    count = len(first)
    cross = float((counts * sizes_a[a] * sizes_b[b]).sum())
    squares = float((sizes_a**2).sum() * (sizes_b**2).sum())
    return float((counts.astype(float) ** 2).sum()) - 2 * cross / count + squares / count**2


def _is_singular(system: Float[np.ndarray, "k k"]) -> bool:
    eigenvalues = np.linalg.eigvalsh(system)
    return bool(eigenvalues[0] < TOLERANCE * eigenvalues[-1])


def _average_squared_shares(levels: np.ndarray, means: np.ndarray) -> float:
    """Average, over means, the sum of squared shares of a term's levels in the mean's observations."""
    sizes = np.bincount(means)
    cells, counts = np.unique(_index_cells(means, levels), return_counts=True)
    shares = counts / sizes[cells // (int(levels.max(initial=0)) + 1)]
    return float((shares**2).sum() / len(sizes))
