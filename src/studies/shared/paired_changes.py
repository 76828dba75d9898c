"""Compare the statistics of two jobs on the same targets by a paired jackknife (docs/methods.md, 9.2)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import special

from src.metrics.jackknife import Replicates
from src.report.findings import Findings
from src.studies.shared.cluster_jackknife import list_cluster_columns
from src.studies.shared.jackknife_table import (
    KEYS,
    TABLE,
    Block,
    Estimates,
    build_jackknife_table,
    compute_means,
    read_estimates,
)
from src.studies.shared.job_pairs import Pair
from src.studies.shared.target_jackknife import join_targets

# Statements on a change: it exceeds the measure itself; its interval excludes 0, or includes 0.
EXCEEDS, CHANGES, UNCLEAR = "moves more than it measures", "changes", "unclear"
NO_TABLE = (
    "a job lacks the table jackknife: it is of an older version (compute it again with resume=false), or its "
    "study writes none"
)
OTHER_UNITS = "the targets or their clusters differ"
# Measures of targets.parquet, and their columns.
MEANS = {"mean intrinsic": "intrinsic", "mean outcome": "extrinsic"}


def compare_pair(findings: Findings, pair: Pair) -> Iterator[tuple[pd.DataFrame, Estimates]]:
    """Yield the rows of each block of statistics, and the joint estimates: before, then after, [2 S]."""
    for joint in join_jobs(findings, pair.configs):
        yield _build_rows(joint), joint
    if means := _estimate_joint_means(findings, pair):
        yield _build_rows(means), means


def join_jobs(findings: Findings, configs: Sequence[str]) -> Iterator[Estimates]:
    """Yield the statistics that all jobs have, by block: those of one job after another, [jobs * S]."""
    first, *others = (_read_job(findings, config) for config in configs)
    for units, estimates in first.items():
        if all(units in other for other in others):
            joint = _join([estimates, *(other[units] for other in others)])
            if len(joint.names):
                yield joint


def _read_job(findings: Findings, config: str) -> dict[str, Estimates]:
    """Read the statistics of a job, by the hash of their units."""
    if not findings.has(config, TABLE):
        return {}
    return {estimates.units: estimates for estimates in read_estimates(findings.read(config, TABLE))}


def explain_missing(findings: Findings, pair: Pair) -> str:
    """Explain why `compare_pair` yields nothing for a pair of jobs with results."""
    return OTHER_UNITS if all(findings.has(config, TABLE) for config in pair.configs) else NO_TABLE


def _join(jobs: Sequence[Estimates]) -> Estimates:
    """Join the statistics that all jobs have: those of one job after another, [jobs * S]."""
    positions = [
        pd.Series(range(len(each.names)), index=pd.MultiIndex.from_frame(each.names[KEYS])) for each in jobs
    ]
    common = positions[0].index
    for place in positions[1:]:
        common = common.intersection(place.index, sort=False)
    chosen = [
        each.select(place.loc[common].to_numpy(dtype=int))
        for each, place in zip(jobs, positions, strict=True)
    ]
    by_way = zip(*(each.replicates.ways for each in chosen), strict=True)
    ways = tuple((ways[0][0], np.hstack([statistics for _, statistics in ways])) for ways in by_way)
    cells = np.hstack([each.replicates.cells for each in chosen])
    reason = next(filter(None, (each.replicates.reason for each in chosen)), "")
    replicates = Replicates(ways, cells, chosen[0].replicates.df, reason)
    values = np.concatenate([each.values for each in chosen])
    return Estimates(chosen[0].names, values, replicates, chosen[0].units)


def _estimate_joint_means(findings: Findings, pair: Pair) -> Estimates | None:
    """Estimate the mean scores of the targets that both jobs share, before and after; None without any."""
    tables = [findings.read(config, "targets") for config in pair.configs]
    if not all({"id", "stratum", *MEANS.values()} <= {*table} for table in tables):
        return None
    return estimate_means(join_targets(*tables), ("_before", "_after"))


def estimate_means(targets: pd.DataFrame, suffixes: Sequence[str] = ("",)) -> Estimates | None:
    """Estimate the mean scores of each stratum of targets.parquet; None without any.

    Args:
        targets: table of targets, with clusters.
        suffixes: ends of the names of score columns, such as `_before`; means [M] of each follow another,
            [suffixes * M], and those that are undefined with one of them are left out.
    """
    if targets.empty or not list_cluster_columns(targets):
        return None
    # A target of several strata is a single unit of the jackknife.
    strata = targets["stratum"].astype(str)
    masks = {name: (strata == name).to_numpy() for name in dict.fromkeys(strata)}
    columns = [
        (f"{column}{suffix}", measure, mask, name)
        for suffix in suffixes
        for measure, column in MEANS.items()
        for name, mask in masks.items()
    ]
    functions = [
        compute_means(targets[column].to_numpy(dtype=float), [mask]) for column, _, mask, _ in columns
    ]
    block = Block(
        targets,
        [(measure, name, np.nan) for _, measure, _, name in columns],
        lambda samples: np.hstack([function(samples) for function in functions]),
        [*masks.values()],
    )
    (estimates,) = read_estimates(build_jackknife_table([block]))
    by_suffix = np.arange(len(columns)).reshape(len(suffixes), -1)
    defined = np.isfinite(estimates.values[by_suffix]).all(axis=0)
    if not defined.any():
        return None
    chosen = estimates.select(by_suffix[:, defined].ravel())
    return replace(chosen, names=chosen.names.iloc[: int(defined.sum())])


def _build_rows(joint: Estimates) -> pd.DataFrame:
    """Build the rows of statistics from their joint estimates, before and after, [2 S]."""
    count = len(joint.names)
    null = joint.names["null"].to_numpy(dtype=float)
    before, after = joint.values[:count], joint.values[count:]
    change, size = after - before, before - null
    # With the signs of the estimates, the sizes of change and measure are linear in the statistics.
    signs = np.sign(change), np.sign(size)

    def split(statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return statistics[:, :count], statistics[:, count:]

    def subtract(statistics: np.ndarray) -> np.ndarray:
        first, second = split(statistics)
        return np.asarray(second - first)

    def exceed(statistics: np.ndarray) -> np.ndarray:
        first, second = split(statistics)
        return np.asarray(signs[0] * (second - first) - signs[1] * (first - null))

    replicates, df = joint.replicates, joint.replicates.df
    quantile = float(special.stdtrit(df, 0.975)) if df > 0 else np.nan
    half_width = quantile * np.sqrt(replicates.variance()[:count])
    change_error = np.sqrt(replicates.variance(subtract))
    excess, excess_error = np.abs(change) - np.abs(size), np.sqrt(replicates.variance(exceed))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * special.stdtr(df, -np.abs(change) / change_error)
    # A change of 0 has no error if no picture changed.
    p = np.where(change == 0, np.where(np.isfinite(change_error), 1.0, np.nan), p)
    rows = joint.names.assign(before=before, after=after, change=change, p=p, df=df, half_width=half_width)
    rows = rows.assign(
        change_low=change - quantile * change_error, change_high=change + quantile * change_error
    )
    rows = rows.assign(excess=excess, excess_low=excess - quantile * excess_error)
    rows = rows.assign(excess_high=excess + quantile * excess_error)
    has_interval = np.isfinite(change_error)
    excludes_zero = (rows["change_low"] > 0) | (rows["change_high"] < 0)
    rows["verdict"] = np.select(
        [~has_interval, rows["excess_low"] > 0, excludes_zero], ["", EXCEEDS, CHANGES], UNCLEAR
    )
    undefined = replicates.reason or "undefined in one of the jobs, or without one of the clusters"
    rows["reason"] = np.where(has_interval, "", f"no interval: {undefined}")
    return rows
