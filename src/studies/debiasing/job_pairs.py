"""Jobs with debiasing, each beside the same job without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from src.report.findings import Findings

NONE = "none"
# What two jobs share that differ in their debiasing alone.
JOB = ("exp", "paper", "model", "dataset", "protocol", "seed")
ENDED = ("finished", "taken_over")


@dataclass(frozen=True, eq=False)
class Pair:
    """A job with debiasing, and its counterpart without.

    Attributes:
        kind: `propagation`, `audit` or `zero_shot`.
        job: `JOB` of both.
        debias: the method.
        before, after: `config` of the job without and with it; empty where it has no results.
        reason: why there is nothing to compare; empty where there is.
        rows: of analyses.csv of both.
    """

    kind: str
    job: Mapping[str, Any]
    debias: str
    before: str
    after: str
    reason: str = ""
    rows: tuple[pd.DataFrame, pd.DataFrame] = field(default=(pd.DataFrame(), pd.DataFrame()), repr=False)


def kinds(findings: Findings) -> dict[str, pd.DataFrame]:
    """The rows of each kind of experiment."""
    names = {"propagation": "propagation", "audit": "implicit", "zero_shot": "zero_shot"}
    return {kind: findings.of(study) for kind, study in names.items()}


def methods(findings: Findings) -> list[str]:
    """The ways of debiasing that the sweep asked for, also those whose every job failed."""
    named = [frame["debias"] for frame in (*kinds(findings).values(), findings.jobs) if "debias" in frame]
    every = dict.fromkeys(str(name) for column in named for name in column.dropna())
    return [name for name in every if name not in ("", NONE)]


def pairs(findings: Findings) -> list[Pair]:
    """Every job of the sweep with each of its ways of debiasing, beside the job without."""
    wanted, lost = methods(findings), _lost(findings.jobs)
    found: list[Pair] = []
    for kind, frame in kinds(findings).items():
        if frame.empty or not wanted:
            continue
        jobs = frame.assign(paper=frame["paper"].fillna(""))
        for keys, own in jobs.groupby(list(JOB), sort=False):
            job = dict(zip(JOB, keys, strict=True))
            by_config = dict(iter(own.groupby("config", sort=False)))
            configs = {
                name: [*dict.fromkeys(rows["config"])] for name, rows in own.groupby("debias", sort=False)
            }
            for method in wanted:
                for after in configs.get(method, [""]):
                    before = configs.get(NONE, [""])[0]
                    gone = [name for name, there in ((NONE, before), (method, after)) if not there]
                    reason = "; ".join(_said(lost, job, name) for name in gone)
                    rows = (by_config.get(before, own[:0]), by_config.get(after, own[:0]))
                    found.append(Pair(kind, job, method, before, after, reason, rows))
    return found


def joined(pair: Pair, keys: Sequence[str], column: str) -> pd.DataFrame:
    """The rows of both jobs that say what a column is, `_before` and `_after`, one for each of `keys`."""
    both = [
        rows.reindex(columns=[*dict.fromkeys((*keys, *rows.columns, column))]).dropna(subset=[column])
        for rows in pair.rows
    ]
    return both[0].merge(both[1], on=list(keys), suffixes=("_before", "_after"))


def _lost(jobs: pd.DataFrame) -> dict[tuple[str, ...], str]:
    columns = ("exp", "model", "protocol", "seed", "debias")
    if jobs.empty:
        return {}
    there = jobs.reindex(columns=[*columns, "status", "reason"])
    return {
        tuple(str(row[name]) for name in columns): f"{row['status']}: {row['reason']}"
        for row in there[~there["status"].isin(ENDED)].to_dict("records")
    }


def _said(lost: Mapping[tuple[str, ...], str], job: Mapping[str, Any], debias: str) -> str:
    why = lost.get((*(str(job[name]) for name in ("exp", "model", "protocol", "seed")), debias))
    return f"no results with debias={debias}" + (f" ({why})" if why else "")
