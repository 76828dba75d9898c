"""Compare rho and level of two analyses by the jackknife (docs/methods.md, section 6.2)."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import Deletions, Replicates, fisher_transform, replicate, t_interval, t_test
from src.report.findings import Findings
from src.studies.propagation.level import summarise
from src.studies.propagation.uncertainty import mean_rhos
from src.studies.shared.cluster_jackknife import WAYS, deletions, is_by_template

RHO, LEVEL = "rho", "level"
Statistic = Callable[[np.ndarray], np.ndarray]
Transform = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A statistic of an analysis.

    Attributes:
        value: the statistic.
        statistic: (weights [G, n]) -> [G, 1], the statistic of samples.
        units: ids of its targets with their clusters, [n].
        replicates: the statistic without one cluster each.
    """

    value: float
    statistic: Statistic
    units: pd.DataFrame
    replicates: Replicates


@dataclass(frozen=True)
class Difference:
    """Difference of two estimates, with its 95% interval and the p of equality."""

    delta: float
    low: float
    high: float
    p: float


def compare(first: Estimate, second: Estimate, is_correlation: bool) -> Difference:
    """Compare two estimates; clusters that they share leave both at once.

    Interval and p are NaN where one of the statistics is undefined without a cluster, or has too few
    clusters. Correlations are tested after Fisher's transformation; their difference is shown as it is.
    """
    if first.units.equals(second.units):
        return _compare_paired({0: first, 1: second}, [(0, 1)], is_correlation)[0, 1]
    df = min(first.replicates.df, second.replicates.df)
    if _are_separate(first, second):

        def variance(transform: Transform) -> float:
            return float((first.replicates.variance(transform) + second.replicates.variance(transform))[0])

    else:
        union = _union(first, second)

        def variance(transform: Transform) -> float:
            differences = union.variance(lambda values: transform(values[:, :1]) - transform(values[:, 1:]))
            return float(differences[0])

    variances = variance(_as_is), variance(fisher_transform if is_correlation else _as_is)
    return _difference(first, second, *variances, df, is_correlation)


def compare_all(
    estimates: Mapping[int, Estimate], pairs: Sequence[tuple[int, int]], is_correlation: bool
) -> dict[tuple[int, int], Difference]:
    """Compare pairs of numbered estimates as `compare` does; those of the same units at once."""
    first_of_same_units: dict[int, int] = {}
    for number, estimate in estimates.items():
        others = dict.fromkeys(first_of_same_units.values())
        same = (other for other in others if _are_same(estimates[other].units, estimate.units))
        first_of_same_units[number] = next(same, number)
    results, paired = {}, defaultdict(list)
    for first, second in pairs:
        if first_of_same_units[first] == first_of_same_units[second]:
            paired[first_of_same_units[first]].append((first, second))
        else:
            results[first, second] = compare(estimates[first], estimates[second], is_correlation)
    for same_units in paired.values():
        results |= _compare_paired(estimates, same_units, is_correlation)
    return results


def _are_same(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    return first is second or first.equals(second)


def _compare_paired(
    estimates: Mapping[int, Estimate], pairs: Sequence[tuple[int, int]], is_correlation: bool
) -> dict[tuple[int, int], Difference]:
    """Compare pairs of estimates which are all of the same units."""
    names, positions = np.unique(pairs, return_inverse=True)
    first, second = positions.reshape(-1, 2).T
    replicates = _stack([estimates[name].replicates for name in names.tolist()])

    def variances(transform: Transform) -> np.ndarray:
        def differences(values: np.ndarray) -> np.ndarray:
            transformed = np.ascontiguousarray(transform(values).T)
            return np.asarray((transformed[first] - transformed[second]).T)

        return replicates.variance(differences)

    of_intervals = variances(_as_is)
    of_tests = variances(fisher_transform) if is_correlation else of_intervals
    results = {}
    for (a, b), of_interval, of_test in zip(pairs, of_intervals.tolist(), of_tests.tolist(), strict=True):
        both = estimates[a], estimates[b]
        results[a, b] = _difference(*both, of_interval, of_test, replicates.df, is_correlation)
    return results


def _as_is(values: np.ndarray) -> np.ndarray:
    return values


def _difference(
    first: Estimate, second: Estimate, of_interval: float, of_test: float, df: int, is_correlation: bool
) -> Difference:
    """Return the difference of two estimates from the variances for its interval and for its test."""
    delta = tested = first.value - second.value
    if is_correlation:
        tested = float(fisher_transform(np.array(first.value)) - fisher_transform(np.array(second.value)))
    return Difference(delta, *t_interval(delta, of_interval, df), t_test(tested, of_test, df))


def _stack(replicates: Sequence[Replicates]) -> Replicates:
    """Return replicates of several statistics of the same deletions, [G, number of statistics]."""
    ways = tuple(
        (same[0][0], np.hstack([values for _, values in same]))
        for same in zip(*(each.ways for each in replicates), strict=True)
    )
    cells = np.hstack([each.cells for each in replicates])
    reason = next((each.reason for each in replicates if each.reason), "")
    return Replicates(ways, cells, replicates[0].df, reason)


def _are_separate(first: Estimate, second: Estimate) -> bool:
    """Return whether clusters of both are of one way and none is shared."""
    columns = [[name for name in WAYS if name in estimate.units] for estimate in (first, second)]
    if any(len(names) != 1 for names in columns):
        return False
    a, b = (set(estimate.units[name]) for estimate, (name,) in zip((first, second), columns, strict=True))
    return not a & b


def _union(first: Estimate, second: Estimate) -> Replicates:
    """Return replicates of both statistics, [G, 2], without one cluster each of their units together."""
    units, size = pd.concat([first.units, second.units], ignore_index=True), len(first.units)

    def both(weights: np.ndarray) -> np.ndarray:
        return np.hstack([first.statistic(weights[:, :size]), second.statistic(weights[:, size:])])

    reason = first.replicates.reason or second.replicates.reason
    return replace(replicate(deletions(units), both), reason=reason)


@dataclass(frozen=True)
class _Units:
    """Units of an estimate, the masks of groups that it compares, and its deletions."""

    units: pd.DataFrame
    groups: Sequence[np.ndarray]
    deletions: Deletions


class JobEstimates:
    """Estimates of the analyses of a sweep; the tables of a job (given by its config) are read once."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._tables: dict[tuple[str, str], pd.DataFrame] = {}
        self._estimates: dict[tuple[str, str, str], Estimate | None] = {}
        self._last: dict[bool, _Units] = {}  # units of the last estimate with groups, and without

    def of(self, config: str, row: dict[str, Any], kind: str) -> Estimate | None:
        """Return rho or level of an analysis, a row of the analyses; None if its job lacks the clusters."""
        key = config, str(row["stratum"]), kind
        if key not in self._estimates:
            make = self._rho if kind == RHO else self._level
            self._estimates[key] = make(config, row)
        return self._estimates[key]

    def _table(self, config: str, name: str) -> pd.DataFrame | None:
        if not self._findings.has(config, name):
            return None
        if (config, name) not in self._tables:
            self._tables[config, name] = self._findings.read(config, name)
        table = self._tables[config, name]
        return table if {*WAYS} & {*table.columns} else None

    def _rho(self, config: str, row: dict[str, Any]) -> Estimate | None:
        table = self._table(config, "targets")
        if table is None or math.isnan(row["rho"]):
            return None
        rows = table[(table["stratum"] == row["stratum"]) & table["intrinsic"].notna()]
        # The mean over templates, where each is correlated on its own.
        by_template = "template" in rows and is_by_template(str(row.get("protocol", "")))
        blocks = rows["template"].to_numpy() if by_template else np.zeros(len(rows))
        scores = rows["intrinsic"].to_numpy(), rows["extrinsic"].to_numpy()

        def statistic(weights: np.ndarray) -> np.ndarray:
            return mean_rhos(*scores, weights, blocks)[:, None]

        return self._estimate(float(row["rho"]), statistic, rows)

    def _level(self, config: str, row: dict[str, Any]) -> Estimate | None:
        table = self._table(config, "levels")
        if table is None or math.isnan(row.get("level", math.nan)):
            return None
        properties = table["property"]
        rows = table[properties == row["stratum"]] if properties.notna().any() else table
        ratings = rows["valence"].to_numpy(dtype=float)
        given = None if np.isnan(ratings).all() else ratings
        in_group = (rows["group"] == row["group"]).fillna(value=False).to_numpy(dtype=bool)
        scores = rows[["measured", "retrieved"]].to_numpy()
        levels = partial(summarise, given, in_group, scores)
        groups = (in_group, ~in_group) if given is None else ()
        return self._estimate(float(row["level"]), lambda weights: levels(weights)[:, :1], rows, groups)

    def _estimate(
        self,
        value: float,
        statistic: Statistic,
        rows: pd.DataFrame,
        groups: Sequence[np.ndarray] = (),
    ) -> Estimate:
        names = [name for name in ("id", "template", *WAYS) if name in rows]
        units, is_level = rows[names].reset_index(drop=True), bool(groups)
        # The same units of the next model have the same deletions.
        last = self._last.get(is_level)
        if last and units.equals(last.units) and _are_equal(groups, last.groups):
            return Estimate(value, statistic, last.units, replicate(last.deletions, statistic))
        self._last[is_level] = _Units(units, groups, deletions(units, groups))
        return Estimate(value, statistic, units, replicate(self._last[is_level].deletions, statistic))


def _are_equal(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))
