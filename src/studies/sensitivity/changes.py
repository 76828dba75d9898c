"""Compute the changes of measures when pictures are perturbed (docs/methods.md, section 9)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import compare_by_ratio
from src.report.findings import Findings
from src.studies.shared.jackknife_table import KEYS, Estimates
from src.studies.shared.job_pairs import FURTHER_NAMES, Pair, pair_jobs
from src.studies.shared.paired_changes import CHANGES, EXCEEDS, compare_pair, explain_missing
from src.studies.shared.spreads import MARGIN
from src.studies.shared.target_jackknife import TargetEstimate, average_estimates, transform

PERTURB = "perturb"  # column of the perturbation
JOB = ["study", "exp", *FURTHER_NAMES, "paper", "model", "dataset", "debias", PERTURB, "protocol", "seed"]
NUMBERS = [
    *("before", "after", "change", "change_low", "change_high", "p", "df", "half_width", "sd_attributes"),
    *("excess", "excess_low", "excess_high"),
]
COLUMNS = [*JOB, *KEYS, "null", *NUMBERS, "verdict", "config_before", "config_after", "reason"]
# Columns of `summarise`: the change of all items of a measure, in the direction of what was measured.
SUMMARY = [*JOB, "measure", "items", "size", "half_width", "sd_attributes"]
SUMMARY += ["relative", "relative_low", "relative_high", "intervals", "excluding_zero", "exceeding", "reason"]


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
        pair_changes = [] if pair.reason else [*compare_pair(findings, pair)]
        if not pair_changes:
            reason = pair.reason or explain_missing(findings, pair)
            changes.append(pd.DataFrame([{**job, **configs, "reason": reason}]))
            continue
        rows = pd.concat([rows for rows, _ in pair_changes], ignore_index=True)
        rows["sd_attributes"] = _find_sd_attributes(pair, rows)
        changes.append(rows.assign(**job, **configs))
        summaries += [{**job, **row} for row in _summarise(rows, [each for _, each in pair_changes])]
    table = pd.concat(changes, ignore_index=True) if changes else pd.DataFrame()
    table = table.reindex(columns=COLUMNS).astype({"df": "Int64"})
    return table, pd.DataFrame(summaries, columns=SUMMARY)


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
        return summary | {"reason": "this measure has no known unbiased value"}
    values, covariance, df = average_estimates(estimates)
    reason = next((each.replicates.reason for each in estimates if each.replicates.reason), "")
    ratio = compare_by_ratio(float(values[0]), float(values[1]), covariance, df, MARGIN)
    if np.isnan(ratio.value):
        too_small = "the mean size before is below 3 standard errors"
        return summary | {"reason": f"no relative change: {reason or too_small}"}
    bounds = {"relative_low": ratio.low - 1, "relative_high": ratio.high - 1}
    return summary | {"relative": ratio.value - 1, **bounds}
