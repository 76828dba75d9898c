"""Pair jobs with debiasing and the same jobs without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from src.report.findings import Findings
from src.studies.shared.draws import UNTREATED

STUDIES = ("propagation", "implicit", "zero_shot")  # studies of the compared jobs
# Columns that are equal in two jobs that differ only in their debiasing.
JOB_KEYS = ("exp", "paper", "model", "dataset", "protocol", "seed")
# Columns that, with `debias`, identify a job without results.
LOST_KEYS = ("exp", "model", "protocol", "seed")
STATUSES_WITH_RESULTS = ("finished", "taken_over")  # statuses of jobs with results


@dataclass(frozen=True, eq=False)
class Pair:
    """A job with debiasing, and its counterpart without."""

    study: str  # one of `STUDIES`
    job: Mapping[str, Any]  # values of `JOB_KEYS`, equal in both jobs
    debias: str  # debiasing method
    configs: tuple[
        str, str
    ]  # `config` of the job without and with debiasing; empty if the job has no results
    reason: str  # reason why the jobs cannot be compared; empty if they can
    rows: tuple[pd.DataFrame, pd.DataFrame] = field(repr=False)  # analyses without and with debiasing


def list_methods(findings: Findings) -> list[str]:
    """List the debiasing methods of the sweep, including methods whose jobs all failed."""
    frames = (*map(findings.of, STUDIES), findings.jobs)
    columns = [frame["debias"] for frame in frames if "debias" in frame]
    names = dict.fromkeys(str(name) for column in columns for name in column.dropna())
    return [name for name in names if name not in ("", UNTREATED)]


def pair_jobs(findings: Findings) -> list[Pair]:
    """Pair the job of each debiasing method with the same job without debiasing."""
    methods, lost = list_methods(findings), _describe_lost(findings.jobs)
    pairs: list[Pair] = []
    for study in STUDIES:
        frame = findings.of(study)
        if frame.empty or not methods:
            continue
        jobs = frame.assign(paper=frame["paper"].fillna(""))
        for keys, job_rows in jobs.groupby(list(JOB_KEYS), sort=False):
            job = dict(zip(JOB_KEYS, keys, strict=True))
            configs = {method: [*rows.unique()] for method, rows in job_rows.groupby("debias")["config"]}
            before = configs.get(UNTREATED, [""])[0]
            for method in methods:
                for after in configs.get(method, [""]):
                    missing = [name for name, config in ((UNTREATED, before), (method, after)) if not config]
                    lost_keys = [(*(str(job[column]) for column in LOST_KEYS), name) for name in missing]
                    reasons = [f"no results with debias={key[-1]}" + lost.get(key, "") for key in lost_keys]
                    rows = (job_rows[job_rows["config"] == before], job_rows[job_rows["config"] == after])
                    pairs.append(Pair(study, job, method, (before, after), "; ".join(reasons), rows))
    return pairs


def join_rows(pair: Pair, keys: Sequence[str], column: str) -> pd.DataFrame:
    """Join the rows of both jobs that have a value in `column` by `keys`; suffixes: `_before`, `_after`."""
    before, after = (
        rows.reindex(columns=[*dict.fromkeys((*keys, *rows.columns, column))]).dropna(subset=[column])
        for rows in pair.rows
    )
    return before.merge(after, on=list(keys), suffixes=("_before", "_after"))


def _describe_lost(jobs: pd.DataFrame) -> dict[tuple[str, ...], str]:
    """Return status and reason, as text, of each job without results: `LOST_KEYS` and `debias` -> text."""
    statuses = jobs.reindex(columns=[*LOST_KEYS, "debias", "status", "reason"])
    return {
        tuple(str(row[name]) for name in (*LOST_KEYS, "debias")): f" ({row['status']}: {row['reason']})"
        for row in statuses[~statuses["status"].isin(STATUSES_WITH_RESULTS)].to_dict("records")
    }
