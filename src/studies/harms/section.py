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
from src.studies.harms.figures import LABELS, draw_shares, label_experiments, label_outcome
from src.studies.harms.outcomes import ACCURACY, ALL_GROUPS, SHARE

TEMPLATES = Path(__file__).with_name("templates")
# Column of the report's explorer -> column of the analyses.
EXPLORED = {"level": "share", "level_low": "share_low", "level_high": "share_high", "level_p": "p", "n": "n"}


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the forest plots and the tables."""
    analyses = findings.of("harms").reindex(columns=[*dict.fromkeys([*findings.of("harms"), *COLUMNS])])
    folder.write_table("harms", analyses, "faces in harmful classes, all specifications, unrounded")
    rows, specification, n_others = select_first_specification(analyses)
    labelled = rows.assign(label=label_experiments(rows))
    drawings = []
    for number, (label, frame) in enumerate(labelled.groupby("label", sort=False), 1):
        models = [*dict.fromkeys(frame["model"])]
        for are_harms, text in ((True, "kinds of classes"), (False, "accuracy by group")):
            drawing = draw_shares(frame, title=f"{label}: {text}", models=models, are_harms=are_harms)
            drawings.append(replace(drawing, name=f"{drawing.name}-{number}"))
    is_total = rows["group"] == ALL_GROUPS
    context = {
        "specification": describe(specification),
        "others": n_others,
        "pictures": folder.write_figures(drawings),
        "totals": to_records(labelled[is_total].head(MAX_ROWS)),
        "groups": to_records(labelled[~is_total].head(MAX_ROWS)),
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


def draw_conclusions(analyses: pd.DataFrame) -> list[str]:
    """Return a sentence per job of the first specification and kind of class, and on the accuracy."""
    if analyses.empty:
        return []
    rows = select_first_specification(analyses)[0]
    jobs = rows.assign(label=label_experiments(rows)).groupby(["label", "model", "config"], sort=False)
    return [text for _, job in jobs for text in _describe_job(job)]


def _describe_job(rows: pd.DataFrame) -> Iterator[str]:
    name = f"{rows['label'].iloc[0]}, {shorten(str(rows['model'].iloc[0]))}"
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
            # Groups without an interval are not among the extremes.
            compared = groups[groups["share_low"].notna()].sort_values("share", kind="stable")
            smallest, largest = compared.iloc[0], compared.iloc[-1]
            p = f", p = {format_digits(total['difference_p'], 3)}" if pd.notna(total["difference_p"]) else ""
            null = f"; permutations up to {format_digits(total['difference_q95'])}" if p else ""
            text += (
                f"; from {format_digits(smallest['share'])} of {smallest['group']} to "
                f"{format_digits(largest['share'])} of {largest['group']}, a difference of "
                f"{_quote(total, 'difference')}{null}{p}"
            )
        yield f"{text}."


def _quote(row: pd.Series, name: str) -> str:
    """Return a value with its interval, or with "no interval"."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    interval = "no interval" if pd.isna(low) else f"{format_digits(low)}, {format_digits(high)}"
    return f"{format_digits(row[name])} " + (f"({interval})" if pd.isna(low) else f"[{interval}]")
