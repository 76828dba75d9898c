"""Estimate variance components of crossed factors with any cells missing by MINQUE(0) (Rao 1971).

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
# Relative size of an eigenvalue below which the system is singular.
TOLERANCE = 1e-9
SINGULAR = "singular system: the cells cannot tell all components apart"

Terms = dict[str, Int[np.ndarray, " n"]]


@dataclass(frozen=True)
class Components:
    """Variance components.

    Attributes:
        variances: variance by term: factors, pairs of factors, `rest`. NaN where undefined for `reason`;
            negative ones are chance values around a small variance.
        terms: level [N] of each observation by term.
        reason: reason for undefined variances; empty where they are defined.
    """

    variances: Mapping[str, float]
    terms: Terms
    reason: str = ""

    def shares(self) -> dict[str, float]:
        """Return the share of each component in the total variance; negative ones count as 0."""
        positive = {name: max(variance, 0.0) for name, variance in self.variances.items()}
        total = sum(positive.values())
        return {name: variance / total if total else math.nan for name, variance in positive.items()}

    def generalisability(self, of: str, fixed: Collection[str] = ()) -> float:
        """Compute the generalisability coefficient of the means of a factor's levels (Brennan 2001).

        Terms that are the same for all levels of the factor (those of other factors alone) do not enter.
        A mean weighs its observations equally: the variance of a term is multiplied by the sum of the
        squared shares of its levels, averaged over the means, which is 1/n where all cells are filled.

        Args:
            of: the factor whose means are compared.
            fixed: factors whose levels are all there are: their interactions with `of` count as true.

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
            name: positive[name] * _mean_squared_share(levels, self.terms[of])
            for name, levels in self.terms.items()
            if _is_nested(levels, self.terms[of])
        }
        total = sum(specific.values())
        return sum(value for name, value in specific.items() if name in true) / total if total else math.nan


def variance_components(values: ArrayLike, factors: Mapping[str, ArrayLike]) -> Components:
    """Estimate the variances of random factors, of their pairs, and of the rest, by MINQUE(0).

    The estimates are those of the ANOVA where all cells are filled equally often, and unbiased with any
    cells missing: tr(M V_f M V_h) v = y'M V_f M y, with V_f = Z_f Z_f' and M centring.

    Args:
        values: [N] values, finite.
        factors: level [N] of each observation, by factor. A pair of which one factor is nested in the other
            has the levels of the former, and is left out.

    >>> data = {"model": [*"aabbccaabbcc"], "exp": [1, 2] * 6}
    >>> components = variance_components([1, 2, 3, 4, 8, 9, 1, 3, 3, 5, 9, 9], data)
    >>> {name: round(variance, 3) for name, variance in components.variances.items()}
    {'model': 12.917, 'exp': 0.625, 'model:exp': 0.042, 'rest': 0.25}
    """
    y = np.asarray(values, dtype=float)
    terms = _terms({name: _codes(np.asarray(levels)) for name, levels in factors.items()}, len(y))
    names = [*terms]
    system = np.zeros((len(names), len(names)))
    for row, column in zip(*np.triu_indices(len(names)), strict=True):
        system[row, column] = _trace(terms[names[row]], terms[names[column]])
    system = np.triu(system) + np.triu(system, 1).T
    scale = np.sqrt(np.diag(system))
    if (scale <= 0).any() or _is_singular(system / np.outer(scale, scale)):
        return Components(dict.fromkeys(names, math.nan), terms, SINGULAR)
    centred = y - y.mean()
    squares = np.array([(np.bincount(levels, centred) ** 2).sum() for levels in terms.values()])
    variances = np.linalg.solve(system / np.outer(scale, scale), squares / scale) / scale
    return Components(dict(zip(names, variances.tolist(), strict=True)), terms)


def _codes(levels: np.ndarray) -> Int[np.ndarray, " n"]:
    return np.asarray(np.unique(levels, return_inverse=True)[1]).reshape(-1)


def _terms(factors: Terms, count: int) -> Terms:
    """Add pairs of factors, and the rest, whose levels are the observations."""
    terms = dict(factors)
    for (first, a), (second, b) in combinations(factors.items(), 2):
        if not _is_nested(a, b) and not _is_nested(b, a):
            terms[f"{first}:{second}"] = _codes(_cells(a, b))
    return terms | {REST: np.arange(count)}


def _cells(first: np.ndarray, second: np.ndarray) -> Int[np.ndarray, " n"]:
    """Return the number of each observation's cell in the table of two terms."""
    return np.asarray(first * (int(second.max(initial=0)) + 1) + second)


def _is_nested(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether each level of the first term occurs at a single level of the second."""
    return len(np.unique(_cells(first, second))) == len(np.unique(first))


def _trace(first: np.ndarray, second: np.ndarray) -> float:
    """Compute tr(M V_f M V_h), the sum of squares of Z_f' M Z_h, from the counts of the filled cells."""
    cells, counts = np.unique(_cells(first, second), return_counts=True)
    sizes_a, sizes_b = np.bincount(first).astype(float), np.bincount(second).astype(float)
    a, b = np.divmod(cells, len(sizes_b))
    count = len(first)
    cross = float((counts * sizes_a[a] * sizes_b[b]).sum())
    squares = float((sizes_a**2).sum() * (sizes_b**2).sum())
    return float((counts.astype(float) ** 2).sum()) - 2 * cross / count + squares / count**2


def _is_singular(system: Float[np.ndarray, "k k"]) -> bool:
    eigenvalues = np.linalg.eigvalsh(system)
    return bool(eigenvalues[0] < TOLERANCE * eigenvalues[-1])


def _mean_squared_share(levels: np.ndarray, means: np.ndarray) -> float:
    """Average, over means, the sum of squared shares of a term's levels in the mean's observations."""
    sizes = np.bincount(means)
    cells, counts = np.unique(_cells(means, levels), return_counts=True)
    shares = counts / sizes[cells // (int(levels.max(initial=0)) + 1)]
    return float((shares**2).sum() / len(sizes))
