"""Pair jobs that make a choice, such as a debiasing method, with the same jobs without it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from src.report.findings import Findings
from src.studies.shared.draws import UNTREATED

# Columns that identify a job, besides the column of the choice.
NAMES = ("exp", "paper", "model", "dataset", "debias", "perturb", "protocol", "seed")
# Columns of some studies that identify a job as well.
FURTHER_NAMES = ("taxonomy", "classes")
# Of `NAMES`, the columns that a job without results has.
LOST_NAMES = ("exp", "model", "debias", "perturb", "protocol", "seed")
STATUSES_WITH_RESULTS = ("finished", "taken_over")  # statuses of jobs with results


@dataclass(frozen=True, eq=False)
class Pair:
    """A job with a treatment, such as a debiasing method, and its counterpart without."""

    study: str  # study of both jobs
    job: Mapping[str, Any]  # names that are equal in both jobs
    treatment: str  # value of the column of the choice
    configs: tuple[
        str, str
    ]  # `config` of the job without and with the treatment; empty if the job has no results
    reason: str  # reason why the jobs cannot be compared; empty if they can
    rows: tuple[pd.DataFrame, pd.DataFrame] = field(repr=False)  # analyses without and with the treatment


def list_treatments(
    findings: Findings, column: str, studies: Sequence[str], untreated: str = UNTREATED
) -> list[str]:
    """List the values of a column, such as `debias`, but `untreated`, including those of failed jobs."""
    frames = (*map(findings.of, studies), findings.jobs)
    columns = [frame[column] for frame in frames if column in frame]
    names = dict.fromkeys(str(name) for values in columns for name in values.dropna())
    return [name for name in names if name not in ("", untreated)]


def pair_jobs(
    findings: Findings, column: str, studies: Sequence[str], untreated: str = UNTREATED
) -> list[Pair]:
    """Pair the job of each treatment, a value of `column`, with the same job with the value `untreated`.

    Of several jobs of the same names, the one whose overrides differ least is its counterpart.
    """
    treatments = list_treatments(findings, column, studies, untreated)
    lost_names = [*dict.fromkeys((*LOST_NAMES, column))]
    lost = _describe_lost(findings.jobs, lost_names)
    overrides = _list_other_overrides(findings.jobs, column)
    pairs: list[Pair] = []
    for study in studies:
        frame = findings.of(study)
        if frame.empty or not treatments:
            continue
        further = [name for name in FURTHER_NAMES if name in frame]
        names = [*(name for name in NAMES if name != column), *further]
        jobs = frame.fillna(dict.fromkeys(("paper", *further), ""))
        for keys, job_rows in jobs.groupby(names, sort=False):
            job = dict(zip(names, keys, strict=True))
            configs = {value: [*rows.unique()] for value, rows in job_rows.groupby(column)["config"]}
            for treatment in treatments:
                for after in configs.get(treatment, [""]):
                    before = _find_counterpart(after, configs.get(untreated, [""]), overrides)
                    missing = [
                        name for name, config in ((untreated, before), (treatment, after)) if not config
                    ]
                    reasons = [
                        f"no results with {column}={name}"
                        + lost.get(_identify({**job, column: name}, lost_names), "")
                        for name in missing
                    ]
                    rows = (job_rows[job_rows["config"] == before], job_rows[job_rows["config"] == after])
                    pairs.append(Pair(study, job, treatment, (before, after), "; ".join(reasons), rows))
    return pairs


def join_rows(pair: Pair, keys: Sequence[str], column: str) -> pd.DataFrame:
    """Join the rows of both jobs that have a value in `column` by `keys`; suffixes: `_before`, `_after`."""
    before, after = (
        rows.reindex(columns=[*dict.fromkeys((*keys, *rows.columns, column))]).dropna(subset=[column])
        for rows in pair.rows
    )
    return before.merge(after, on=list(keys), suffixes=("_before", "_after"))


def _list_other_overrides(jobs: pd.DataFrame, column: str) -> dict[str, set[str]]:
    """List the overrides of each job by its config, without those of `column`."""
    texts = jobs.reindex(columns=["config", "overrides"])
    return {
        str(config): {text for text in str(overrides).split() if not re.match(rf"[+~]*{column}[=.@]", text)}
        for config, overrides in texts.itertuples(index=False, name=None)
    }


def _find_counterpart(config: str, candidates: Sequence[str], overrides: Mapping[str, set[str]]) -> str:
    """Find the candidate whose overrides differ least from those of a job; the first of several."""
    chosen: set[str] = overrides.get(config, set())
    return min(candidates, key=lambda candidate: len(chosen ^ overrides.get(candidate, set())))


def _describe_lost(jobs: pd.DataFrame, names: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Return status and reason, as text, of each job without results, by the columns `names`."""
    statuses = jobs.reindex(columns=[*names, "status", "reason"])
    return {
        _identify(row, names): f" ({row['status']}: {row['reason']})"
        for row in statuses[~statuses["status"].isin(STATUSES_WITH_RESULTS)].to_dict("records")
    }


def _identify(job: Mapping[Any, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(job[name]) for name in names)
