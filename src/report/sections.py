"""What the parts of the page say, as plain values for its templates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from src.report.cells import COLUMNS, LONGEST, records
from src.report.findings import Findings, of_reading, readings
from src.report.paper_figures import PAIRS
from src.report.published import beside
from src.report.subtler import rows as subtler
from src.report.tables import OVERALL, summary

Row = Mapping[str, Any]


def completed(analyses: pd.DataFrame) -> pd.DataFrame:
    """The analyses with every column that the page shows: NaN where a job had it switched off."""
    found = analyses.copy()
    for column in (*(column.name for column in COLUMNS), "rho_placebo_units"):
        if column not in found:
            found[column] = math.nan
    return found


def ordered(analyses: pd.DataFrame) -> pd.DataFrame:
    """The analyses with the paper's experiments first, in its order."""
    if analyses.empty:
        return analyses
    order = [exp for pair in PAIRS for exp in pair]
    order += [exp for exp in dict.fromkeys(analyses["exp"]) if exp not in order]
    return analyses.sort_values("exp", key=lambda exp: exp.map(order.index), kind="stable")


def head(findings: Findings) -> dict[str, Any]:
    """The numbers that the page starts with, of the shown reading."""
    shown = findings.shown
    others = (findings.audits, findings.zero_shot, findings.sobit, findings.poems)
    every = [shown, *map(_first, others)]
    every.append(subtler.shown(findings.subtler))
    found: dict[str, Any] = {
        "analyses": sum(map(len, every)),
        "models": len({name for rows in every if len(rows) for name in rows["model"]}),
        "experiments": len({name for rows in every if len(rows) for name in rows["exp"]}),
        "readings": len(findings.readings),
        "reading": _reading(findings),
        "date": findings.started.replace("T", " ")[:16],
    }
    if shown.empty:
        return found
    rho = shown["rho"]
    compared = shown.dropna(subset=["rho", "placebo_q95"])
    return found | {
        "defined": int(rho.count()),
        "mean": float(rho.mean()),
        "sd": float(rho.std(ddof=1)),
        "above": int((compared["rho"] > compared["placebo_q95"]).sum()),
        "compared": len(compared),
        "small_q": int((shown["q"] <= 0.05).sum()),
        "with_q": int(shown["q"].count()),
    }


def _first(rows: pd.DataFrame) -> pd.DataFrame:
    return of_reading(rows, readings(rows)[0]) if len(rows) else rows


def _reading(findings: Findings) -> str:
    if not findings.readings:
        return ""
    protocol, seed, debias = findings.readings[0]
    return f"protocol {protocol}, seed {seed}" + (f", debias {debias}" if debias != "none" else "")


def lacking(findings: Findings) -> dict[str, Any]:
    """What a reader might take to be here and is not: jobs without numbers, and rho's that are undefined."""
    jobs = findings.jobs.reindex(columns=["status", "reason", "overrides", "model", "exp", "protocol"])
    without = {
        "failed": jobs["status"] == "failed",
        "not_applicable": jobs["status"] == "not_applicable",
        "lost": ~jobs["status"].isin(["failed", "not_applicable", "finished", "taken_over"]),
    }
    parts = {}
    for name, chosen in without.items():
        by_reason: dict[str, list[str]] = {}
        for job in records(jobs[chosen]):
            by_reason.setdefault(str(job["reason"] or "no reason recorded"), []).append(_named(job))
        parts[name] = by_reason
    undefined = findings.analyses
    if len(undefined):
        undefined = undefined[undefined["rho"].isna()]
    return {
        **parts,
        "never": list(findings.missing),
        "undefined": records(undefined)[:LONGEST],
        "undefined_count": len(undefined),
        "unfinished": findings.status != "FINISHED",
    }


def _named(job: Row) -> str:
    if job["overrides"]:
        return str(job["overrides"])
    parts = [str(job[name]) for name in ("model", "exp", "protocol") if job[name]]
    return " ".join(parts) or "unnamed job"


def main_table(shown: pd.DataFrame) -> dict[str, Any]:
    """Experiments down, models across: mean ± SD, beside the paper's where dataset=paper."""
    found = summary(shown).assign(beside=lambda frame: beside(frame))
    lines = []
    models = [*dict.fromkeys(found["model"])]
    for (exp, paper), rows in found.groupby(["exp", "paper"], sort=False):
        cells = {row["model"]: row for row in records(rows)}
        name = "all" if exp == OVERALL else exp
        lines.append({"exp": name, "paper": "" if exp == OVERALL else paper, "cells": cells})
    return {"lines": lines, "models": models, "compared": "published_mean" in found, "table": found}


def pairs_of_models(differences: pd.DataFrame) -> list[Row]:
    """Differences of models in short: per experiment and pair, over its groups."""
    rows: list[Row] = []
    for keys, own in differences.groupby(["exp", "first", "second"], sort=False):
        rows.append(
            {
                **dict(zip(("exp", "first", "second"), keys, strict=True)),
                "mean": own["difference"].mean(),
                "lowest": own["difference"].min(),
                "highest": own["difference"].max(),
                "known": int(own["q"].notna().sum()),
                "small_q": int((own["q"] <= 0.05).sum()),
            }
        )
    return rows


def grouped(rows: Sequence[Row], by: str) -> dict[str, list[Row]]:
    """Rows by the value of a column, in the order of the rows."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row[by]), []).append(row)
    return found
