"""Build the report's section on harmful classes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from src.report.drawing import shorten
from src.report.explorer import build_rows
from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.forest_plot import format_digits
from src.report.format import MAX_ROWS, to_records
from src.report.study import Section
from src.report.tables import describe, select_first_specification
from src.studies.harms.experiment import COLUMNS
from src.studies.harms.figures import LABELS, draw_shares, label_outcome
from src.studies.harms.outcomes import ACCURACY, ALL_GROUPS, SHARE

TEMPLATES = Path(__file__).with_name("templates")
# Column of the report's explorer -> column of the analyses.
EXPLORED = {"level": "share", "level_low": "share_low", "level_high": "share_high", "level_p": "p", "n": "n"}
JOB = ["exp", "classes", "model"]


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the forest plots and the tables."""
    analyses = findings.of("harms").reindex(columns=[*dict.fromkeys([*findings.of("harms"), *COLUMNS])])
    folder.write_table("harms", analyses, "faces in harmful classes, all specifications, unrounded")
    rows, specification, n_others = select_first_specification(analyses)
    drawings = []
    for number, (exp, frame) in enumerate(_split_experiments(rows), 1):
        models = [*dict.fromkeys(frame["model"])]
        for are_harms, text in ((True, "kinds of classes"), (False, "accuracy by group")):
            drawing = draw_shares(frame, title=f"{exp}: {text}", models=models, are_harms=are_harms)
            drawings.append(replace(drawing, name=f"{drawing.name}-{number}"))
    is_total = rows["group"] == ALL_GROUPS
    context = {
        "specification": describe(specification),
        "others": n_others,
        "pictures": folder.write_figures(drawings),
        "totals": to_records(rows[is_total].head(MAX_ROWS)),
        "groups": to_records(rows[~is_total].head(MAX_ROWS)),
        "left": max(0, int((~is_total).sum()) - MAX_ROWS) + max(0, int(is_total.sum()) - MAX_ROWS),
        "labels": LABELS,
    }
    labels = [label_outcome(*pair) for pair in zip(analyses["kind"], analyses["measure"], strict=True)]
    return Section(
        rows=rows,
        explorer_rows=build_rows(
            analyses,
            study="harms",
            group=analyses["group"],
            measure=pd.Series(labels, analyses.index),
            numbers=EXPLORED,
        ),
        templates=TEMPLATES,
        context={"harms": context},
        body=("harms.html",),
        conclusions=draw_conclusions(analyses),
        links=(("harms", "Harmful classes"),),
    )


def _split_experiments(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of each experiment with its name; with several lists of classes, of each of them."""
    several = rows.groupby("exp")["classes"].nunique() > 1
    for (exp, classes), frame in rows.groupby(["exp", "classes"], sort=False):
        yield f"{exp}, {classes}" if several[exp] else str(exp), frame


def draw_conclusions(analyses: pd.DataFrame) -> list[str]:
    """Return a sentence per job of the first specification and kind of class, and on the accuracy."""
    if analyses.empty:
        return []
    rows = select_first_specification(analyses)[0]
    return [text for _, job in rows.groupby(JOB, sort=False) for text in _describe_job(job)]


def _describe_job(rows: pd.DataFrame) -> Iterator[str]:
    name = f"{rows['exp'].iloc[0]}, {shorten(str(rows['model'].iloc[0]))}"
    for (kind, measure), outcome in rows.groupby(["kind", "measure"], sort=False):
        total, groups = outcome.iloc[-1], outcome.iloc[:-1]
        if measure == SHARE:
            label = label_outcome(str(kind), SHARE)
            what = f"{_quote(total, 'share')} of {total['n']:.0f} faces are classified as {label}"
        elif measure == ACCURACY:
            what = f"{_quote(total, 'share')} of {total['n']:.0f} faces are classified as their own group"
        else:
            continue
        text = f"{name}: {what}"
        if pd.notna(total["difference"]) and total["difference"] > 0:
            largest, smallest = (groups.loc[groups["share"].eq(end(groups)).idxmax()] for end in ENDS)
            p = f", p = {format_digits(total['difference_p'], 3)}" if pd.notna(total["difference_p"]) else ""
            null = f"; permutations up to {format_digits(total['difference_q95'])}" if p else ""
            text += (
                f"; from {format_digits(smallest['share'])} of {smallest['group']} to "
                f"{format_digits(largest['share'])} of {largest['group']}, a difference of "
                f"{_quote(total, 'difference')}{null}{p}"
            )
        yield f"{text}."


def _largest(groups: pd.DataFrame) -> float:
    return float(groups["share"][groups["share_low"].notna()].max())


def _smallest(groups: pd.DataFrame) -> float:
    return float(groups["share"][groups["share_low"].notna()].min())


ENDS = (_largest, _smallest)


def _quote(row: pd.Series, name: str) -> str:
    """Return a value with its interval, or with "no interval"."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    interval = "no interval" if pd.isna(low) else f"{format_digits(low)}, {format_digits(high)}"
    return f"{format_digits(row[name])} " + (f"({interval})" if pd.isna(low) else f"[{interval}]")
