"""Compare the rho or the level of two analyses by the jackknife (docs/methods.md, section 6.2)."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import (
    Replicates,
    Subsamples,
    compute_t_interval,
    fisher_transform,
    replicate,
    t_test,
)
from src.report.findings import Findings
from src.studies.propagation.level import compute_level_statistics
from src.studies.propagation.uncertainty import compute_mean_rhos
from src.studies.shared.cluster_jackknife import build_subsamples, is_by_template, list_cluster_columns

RHO, LEVEL = "rho", "level"  # kinds of estimates
Statistic = Callable[[np.ndarray], np.ndarray]  # weights of units in samples [G, n] -> statistic [G, 1]
Transform = Callable[[np.ndarray], np.ndarray]  # of statistics, elementwise


@dataclass(frozen=True)
class Estimate:
    """Rho or level of an analysis.

    Attributes:
        value: the estimate.
        statistic: function that computes the estimate in samples of the units.
        units: ids and clusters of the units, [n].
        replicates: the estimate in each subsample without a cluster.
    """

    value: float
    statistic: Statistic
    units: pd.DataFrame
    replicates: Replicates


@dataclass(frozen=True)
class Difference:
    """Difference of two estimates, its 95% interval, and p of the hypothesis that it is 0."""

    delta: float
    low: float
    high: float
    p: float


def compare(first: Estimate, second: Estimate, is_correlation: bool) -> Difference:
    """Compare two estimates; a cluster of both is left out of both at once.

    Interval and p are NaN if an estimate is undefined in a subsample, or has too few clusters. Correlations
    are tested after Fisher's transformation; difference and interval are of the correlations themselves.
    """
    if first.units.equals(second.units):
        return _compare_paired({0: first, 1: second}, [(0, 1)], is_correlation)[0, 1]
    if _are_disjoint(first, second):

        def variance(transform: Transform) -> float:
            return float((first.replicates.variance(transform) + second.replicates.variance(transform))[0])

    else:
        union = _replicate_union(first, second)

        def variance(transform: Transform) -> float:
            differences = union.variance(lambda values: transform(values[:, :1]) - transform(values[:, 1:]))
            return float(differences[0])

    variances = variance(_keep), variance(fisher_transform if is_correlation else _keep)
    return _build_difference(first, second, *variances, is_correlation)


def compare_all(
    estimates: Mapping[int, Estimate], pairs: Sequence[tuple[int, int]], is_correlation: bool
) -> dict[tuple[int, int], Difference]:
    """Compare pairs of estimates, given by their keys, as `compare` does but faster."""
    first_of_same_units: dict[int, int] = {}
    for key, estimate in estimates.items():
        others = dict.fromkeys(first_of_same_units.values())
        same = (other for other in others if _have_same_units(estimates[other].units, estimate.units))
        first_of_same_units[key] = next(same, key)
    results, paired = {}, defaultdict(list)
    for first, second in pairs:
        if first_of_same_units[first] == first_of_same_units[second]:
            paired[first_of_same_units[first]].append((first, second))
        else:
            results[first, second] = compare(estimates[first], estimates[second], is_correlation)
    for same_units in paired.values():
        results |= _compare_paired(estimates, same_units, is_correlation)
    return results


def _have_same_units(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    return first is second or first.equals(second)


def _compare_paired(
    estimates: Mapping[int, Estimate], pairs: Sequence[tuple[int, int]], is_correlation: bool
) -> dict[tuple[int, int], Difference]:
    """Compare pairs of estimates that all have the same units."""
    keys, columns = np.unique(pairs, return_inverse=True)
    first, second = columns.reshape(-1, 2).T
    replicates = _stack_replicates([estimates[key].replicates for key in keys.tolist()])

    def variances(transform: Transform) -> np.ndarray:
        def differences(values: np.ndarray) -> np.ndarray:
            transformed = np.ascontiguousarray(transform(values).T)
            return np.asarray((transformed[first] - transformed[second]).T)

        return replicates.variance(differences)

    interval_variances = variances(_keep)
    test_variances = variances(fisher_transform) if is_correlation else interval_variances
    results = {}
    for (a, b), interval_variance, test_variance in zip(
        pairs, interval_variances.tolist(), test_variances.tolist(), strict=True
    ):
        both = estimates[a], estimates[b]
        results[a, b] = _build_difference(*both, interval_variance, test_variance, is_correlation)
    return results


def _keep(values: np.ndarray) -> np.ndarray:
    """Return statistics unchanged, in place of a transformation."""
    return values


def _build_difference(
    first: Estimate,
    second: Estimate,
    interval_variance: float,
    test_variance: float,
    is_correlation: bool,
) -> Difference:
    """Build the difference of two estimates from its variance and that of the transformed difference.

    The smaller df of the two is used; interval and p are NaN if either estimate has too few clusters.
    """
    delta = tested = first.value - second.value
    if is_correlation:
        tested = float(fisher_transform(np.array(first.value)) - fisher_transform(np.array(second.value)))
    if first.replicates.reason or second.replicates.reason:
        interval_variance = test_variance = math.nan
    df = min(first.replicates.df, second.replicates.df)
    interval = compute_t_interval(delta, interval_variance, df)
    return Difference(delta, *interval, t_test(tested, test_variance, df))


def _stack_replicates(replicates: Sequence[Replicates]) -> Replicates:
    """Join the replicates of several statistics of the same subsamples, as columns, for their variances.

    Their df and reasons may differ: `_build_difference` takes those of a pair.
    """
    ways = tuple(
        (signed_values[0][0], np.hstack([values for _, values in signed_values]))
        for signed_values in zip(*(statistic.ways for statistic in replicates), strict=True)
    )
    cells = np.hstack([statistic.cells for statistic in replicates])
    return Replicates(ways, cells, min(statistic.df for statistic in replicates))


def _are_disjoint(first: Estimate, second: Estimate) -> bool:
    """Return whether both estimates have a single way of clustering, and no cluster in common."""
    columns = [list_cluster_columns(estimate.units) for estimate in (first, second)]
    if any(len(names) != 1 for names in columns):
        return False
    a, b = (set(estimate.units[name]) for estimate, (name,) in zip((first, second), columns, strict=True))
    return not a & b


def _replicate_union(first: Estimate, second: Estimate) -> Replicates:
    """Return both statistics in each subsample of their joint units without a cluster, [G, 2]."""
    units, size = pd.concat([first.units, second.units], ignore_index=True), len(first.units)

    def statistics(weights: np.ndarray) -> np.ndarray:
        return np.hstack([first.statistic(weights[:, :size]), second.statistic(weights[:, size:])])

    reason = first.replicates.reason or second.replicates.reason
    return replace(replicate(build_subsamples(units), statistics), reason=reason)


@dataclass(frozen=True)
class _UnitSubsamples:
    """Units of an estimate, masks of the groups that it compares, and the subsamples without a cluster."""

    units: pd.DataFrame
    groups: Sequence[np.ndarray]
    subsamples: Subsamples


class JobEstimates:
    """Estimates of the analyses of a sweep; each table of a job is read once."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._tables: dict[tuple[str, str], pd.DataFrame] = {}
        self._estimates: dict[tuple[str, str, str], Estimate | None] = {}
        # Whether an estimate compares groups -> units and subsamples of the last such estimate.
        self._last_subsamples: dict[bool, _UnitSubsamples] = {}

    def of(self, config: str, row: dict[str, Any], kind: str) -> Estimate | None:
        """Return the rho or the level (`kind`) of an analysis, given by its job's `config` and its row.

        None if it is undefined, or if its job, of an older version, has no clusters.
        """
        key = config, str(row["stratum"]), kind
        if key not in self._estimates:
            estimate = self._estimate_rho if kind == RHO else self._estimate_level
            self._estimates[key] = estimate(config, row)
        return self._estimates[key]

    def _read_table(self, config: str, name: str) -> pd.DataFrame | None:
        """Return a table of a job; None if it is missing or has no clusters."""
        if not self._findings.has(config, name):
            return None
        if (config, name) not in self._tables:
            self._tables[config, name] = self._findings.read(config, name)
        table = self._tables[config, name]
        return table if list_cluster_columns(table) else None

    def _estimate_rho(self, config: str, row: dict[str, Any]) -> Estimate | None:
        table = self._read_table(config, "targets")
        if table is None or math.isnan(row["rho"]):
            return None
        rows = table[(table["stratum"] == row["stratum"]) & table["intrinsic"].notna()]
        by_template = "template" in rows and is_by_template(row)
        blocks = rows["template"].to_numpy() if by_template else np.zeros(len(rows))
        scores = rows["intrinsic"].to_numpy(), rows["extrinsic"].to_numpy()

        def statistic(weights: np.ndarray) -> np.ndarray:
            return compute_mean_rhos(*scores, weights, blocks)[:, None]

        return self._build_estimate(float(row["rho"]), statistic, rows)

    def _estimate_level(self, config: str, row: dict[str, Any]) -> Estimate | None:
        table = self._read_table(config, "levels")
        if table is None or math.isnan(row.get("level", math.nan)):
            return None
        properties = table["property"]
        rows = table[properties == row["stratum"]] if properties.notna().any() else table
        ratings = rows["valence"].to_numpy(dtype=float)
        known_ratings = None if np.isnan(ratings).all() else ratings
        in_group = (rows["group"] == row["group"]).fillna(value=False).to_numpy(dtype=bool)
        scores = rows[["measured", "retrieved"]].to_numpy()
        levels = partial(compute_level_statistics, known_ratings, in_group, scores)
        groups = (in_group, ~in_group) if known_ratings is None else ()
        return self._build_estimate(float(row["level"]), lambda weights: levels(weights)[:, :1], rows, groups)

    def _build_estimate(
        self,
        value: float,
        statistic: Statistic,
        rows: pd.DataFrame,
        groups: Sequence[np.ndarray] = (),
    ) -> Estimate:
        names = [name for name in ("id", "template", *list_cluster_columns(rows)) if name in rows]
        units, has_groups = rows[names].reset_index(drop=True), bool(groups)
        # The next model often has the same units, and thus the same subsamples.
        last = self._last_subsamples.get(has_groups)
        if last and units.equals(last.units) and _are_equal_masks(groups, last.groups):
            return Estimate(value, statistic, last.units, replicate(last.subsamples, statistic))
        last = self._last_subsamples[has_groups] = _UnitSubsamples(
            units, groups, build_subsamples(units, groups)
        )
        return Estimate(value, statistic, units, replicate(last.subsamples, statistic))


def _are_equal_masks(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))
