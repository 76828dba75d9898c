"""Compute the changes of measures when pictures are perturbed (docs/methods.md, section 9)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from src.metrics.jackknife import Replicates, compare_by_ratio
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
from src.studies.shared.job_pairs import Pair, pair_jobs
from src.studies.shared.spreads import MARGIN
from src.studies.shared.target_jackknife import TargetEstimate, average_estimates, join_targets, transform

PERTURB = "perturb"  # column of the perturbation
JOB = ["study", "exp", "paper", "model", "dataset", "debias", PERTURB, "protocol", "seed"]
# Statements on a change: it exceeds the measure itself; its interval excludes 0, or includes 0.
EXCEEDS, CHANGES, UNCLEAR = "moves more than it measures", "changes", "unclear"
NUMBERS = [
    *("before", "after", "change", "change_low", "change_high", "p", "df", "half_width", "sd_attributes"),
    *("excess", "excess_low", "excess_high"),
]
COLUMNS = [*JOB, *KEYS, "null", *NUMBERS, "verdict", "config_before", "config_after", "reason"]
# Columns of `summarise`: the change of all items of a measure, in the direction of what was measured.
SUMMARY = [*JOB, "measure", "items", "size", "half_width", "sd_attributes"]
SUMMARY += ["relative", "relative_low", "relative_high", "intervals", "excluding_zero", "exceeding", "reason"]
NO_TABLE = (
    "a job lacks the table jackknife: it is of an older version (compute it again with resume=false), or its "
    "study writes none"
)
OTHER_UNITS = "the targets or their clusters differ"
# Measures of targets.parquet, and their columns.
MEANS = {"mean intrinsic": "intrinsic", "mean outcome": "extrinsic"}


def compute_changes(findings: Findings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compute all changes by perturbations in a sweep, for every specification.

    Returns:
        One row per statistic, with `COLUMNS`: its value `before` and `after` the perturbation, their
        difference with interval and p, the half width of the interval of `before`, and the `excess` of the
        size of the change over that of the measure; `reason`, why there is no interval or, in the only row of
        a pair of jobs, no comparison. And one row per pair of jobs and measure with `SUMMARY`.
    """
    changes: list[pd.DataFrame] = []
    summaries: list[dict[str, Any]] = []
    for pair in pair_jobs(findings, PERTURB, [*findings.frames]):
        job = {"study": pair.study, **pair.job, PERTURB: pair.treatment}
        configs = dict(zip(("config_before", "config_after"), pair.configs, strict=True))
        pair_changes = [] if pair.reason else [*_compare_pair(findings, pair)]
        if not pair_changes:
            reason = pair.reason or _explain_missing(findings, pair)
            changes.append(pd.DataFrame([{**job, **configs, "reason": reason}]))
            continue
        rows = pd.concat([rows for rows, _ in pair_changes], ignore_index=True)
        rows["sd_attributes"] = _find_sd_attributes(pair, rows)
        changes.append(rows.assign(**job, **configs))
        summaries += [{**job, **row} for row in _summarise(rows, [each for _, each in pair_changes])]
    table = pd.concat(changes, ignore_index=True) if changes else pd.DataFrame()
    table = table.reindex(columns=COLUMNS).astype({"df": "Int64"})
    return table, pd.DataFrame(summaries, columns=SUMMARY)


def _compare_pair(findings: Findings, pair: Pair) -> Iterator[tuple[pd.DataFrame, Estimates]]:
    """Yield the rows of each block of statistics, and the joint estimates: before, then after, [2 S]."""
    by_job = [_read_estimates(findings, config) for config in pair.configs]
    for before in by_job[0].values():
        after = by_job[1].get(before.units)
        if after is None:
            continue
        joint = _join(before, after)
        if len(joint.names):
            yield _build_rows(joint), joint
    if means := _estimate_means(findings, pair):
        yield _build_rows(means), means


def _read_estimates(findings: Findings, config: str) -> dict[str, Estimates]:
    """Read the statistics of a job, by the hash of their units."""
    if not findings.has(config, TABLE):
        return {}
    return {estimates.units: estimates for estimates in read_estimates(findings.read(config, TABLE))}


def _explain_missing(findings: Findings, pair: Pair) -> str:
    return OTHER_UNITS if all(findings.has(config, TABLE) for config in pair.configs) else NO_TABLE


def _join(before: Estimates, after: Estimates) -> Estimates:
    """Join the statistics that both have; values and replicates before, then those after, [2 S]."""
    positions = [
        pd.Series(range(len(each.names)), index=pd.MultiIndex.from_frame(each.names[KEYS]))
        for each in (before, after)
    ]
    common = positions[0].index.intersection(positions[1].index, sort=False)
    first, second = (
        each.select(place.loc[common].to_numpy(dtype=int))
        for each, place in zip((before, after), positions, strict=True)
    )
    ways = tuple(
        (sign, np.hstack([statistics, other]))
        for (sign, statistics), (_, other) in zip(first.replicates.ways, second.replicates.ways, strict=True)
    )
    cells = np.hstack([first.replicates.cells, second.replicates.cells])
    reason = first.replicates.reason or second.replicates.reason
    replicates = Replicates(ways, cells, first.replicates.df, reason)
    return Estimates(first.names, np.concatenate([first.values, second.values]), replicates, first.units)


def _estimate_means(findings: Findings, pair: Pair) -> Estimates | None:
    """Estimate the mean scores of each stratum of targets.parquet before and after; None without any."""
    tables = [findings.read(config, "targets") for config in pair.configs]
    if not all({"id", "stratum", *MEANS.values()} <= {*table} for table in tables):
        return None
    targets = join_targets(*tables)
    if targets.empty or not list_cluster_columns(targets):
        return None
    # A target of several strata is a single unit of the jackknife.
    strata = targets["stratum"].astype(str)
    masks = {name: (strata == name).to_numpy() for name in dict.fromkeys(strata)}
    columns = [
        (f"{column}_{when}", measure, mask, name)
        for when in ("before", "after")
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
    count = len(columns) // 2
    defined = np.flatnonzero(np.isfinite(estimates.values[:count] + estimates.values[count:]))
    chosen = estimates.select(np.concatenate([defined, defined + count]))
    if not len(defined):
        return None
    return Estimates(chosen.names.iloc[: len(defined)], chosen.values, chosen.replicates, chosen.units)


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


def _find_sd_attributes(pair: Pair, rows: pd.DataFrame) -> pd.Series:
    """Return `sd_attributes` of the job without perturbation for each rho; NaN for other rows."""
    analyses = pair.rows[0].reindex(columns=["stratum", "sd_attributes"]).dropna()
    by_stratum = dict(analyses.itertuples(index=False, name=None))
    return rows["item"].map(by_stratum).astype(float).where(rows["measure"] == "rho")


def _summarise(rows: pd.DataFrame, blocks: list[Estimates]) -> Iterator[dict[str, Any]]:
    """Yield a summary per measure of a pair of jobs, in order of appearance (columns: `SUMMARY`)."""
    for measure, measure_rows in rows.groupby("measure", sort=False):
        has_interval = measure_rows["verdict"] != ""
        summary: dict[str, Any] = {"measure": measure, "items": len(measure_rows)}
        summary |= {name: measure_rows[name].mean() for name in ("half_width", "sd_attributes")}
        summary["intervals"] = int(has_interval.sum())
        summary["excluding_zero"] = int(measure_rows["verdict"].isin([CHANGES, EXCEEDS]).sum())
        summary["exceeding"] = int((measure_rows["verdict"] == EXCEEDS).sum())
        yield summary | _compute_relative_change(str(measure), blocks)


def _compute_relative_change(measure: str, blocks: list[Estimates]) -> dict[str, Any]:
    """Compute the relative change of a measure in the direction measured, with Fieller's interval.

    It is the sum of all items' values after, each with the sign of its value before, over the sum of the
    sizes before, minus 1: -1 if nothing is left, -2 if all are reversed.
    """
    estimates: list[TargetEstimate] = []
    sizes: list[float] = []
    for joint in blocks:
        count = len(joint.names)
        null = joint.names["null"].to_numpy(dtype=float)
        before, after = joint.values[:count] - null, joint.values[count:] - null
        chosen = (joint.names["measure"] == measure).to_numpy() & np.isfinite(before) & np.isfinite(after)
        if not chosen.any():
            continue
        signs, chosen_null = np.sign(before[chosen]), null[chosen]

        def add_up(
            statistics: np.ndarray,
            count: int = count,
            chosen: np.ndarray = chosen,
            signs: np.ndarray = signs,
            null: np.ndarray = chosen_null,
        ) -> np.ndarray:
            first, second = statistics[:, :count][:, chosen], statistics[:, count:][:, chosen]
            return np.stack([(second - null) @ signs, (first - null) @ signs], axis=1)

        values = add_up(joint.values[None])[0]
        estimates.append(TargetEstimate(values, transform(joint.replicates, add_up), joint.units))
        sizes += [*np.abs(before[chosen])]
    summary: dict[str, Any] = {"size": float(np.mean(sizes)) if sizes else np.nan, "reason": ""}
    if not estimates:
        return summary | {"reason": "no value of this measure means that there is no bias"}
    values, covariance, df = average_estimates(estimates)
    reason = next((each.replicates.reason for each in estimates if each.replicates.reason), "")
    ratio = compare_by_ratio(float(values[0]), float(values[1]), covariance, df, MARGIN)
    if np.isnan(ratio.value):
        too_small = "the mean size before is below 3 standard errors"
        return summary | {"reason": f"no relative change: {reason or too_small}"}
    bounds = {"relative_low": ratio.low - 1, "relative_high": ratio.high - 1}
    return summary | {"relative": ratio.value - 1, **bounds}
