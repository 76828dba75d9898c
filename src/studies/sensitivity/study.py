"""Build the report's section on perturbed pictures, which compares jobs of the other studies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import RenderableType

from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.format import group_rows, to_records
from src.report.study import Section, StudyReport
from src.report.tables import build_table
from src.studies.sensitivity.changes import JOB, PERTURB, compute_changes
from src.studies.sensitivity.figures import draw_changes
from src.studies.sensitivity.overview import (
    ALL,
    draw_conclusions,
    format_share,
    label_experiments,
    select_first_specification,
    summarise_perturbations,
)
from src.studies.shared.draws import UNTREATED
from src.studies.shared.paired_changes import EXCEEDS

ALPHA = 0.05
TITLE = (
    "change of what is measured with perturbed pictures: median over experiments (range); experiments whose "
    "interval excludes 0; measures that move more than they measure"
)


def has_perturbations(findings: Findings) -> bool:
    """Return whether a job of the sweep has perturbed pictures."""
    frames = [*findings.frames.values(), findings.jobs]
    names = {name for frame in frames if PERTURB in frame for name in frame[PERTURB].dropna()}
    return bool(names - {"", UNTREATED})


def build_section(findings: Findings, folder: ReportFolder) -> Section | None:
    """Write the figures and tables on perturbed pictures; return the section, None without any."""
    if not has_perturbations(findings):
        return None
    changes, summary = compute_changes(findings)
    folder.write_table("perturbations", changes, "measures with and without perturbation, all specifications")
    folder.write_table("perturbations-summary", summary, "changes by perturbation, per job and measure")
    # On the page, the list of words or classes is in the name of the experiment.
    changes, summary = (rows.assign(exp=label_experiments(rows)) for rows in (changes, summary))
    selected, specification, n_others = select_first_specification(summary)
    first_changes, _, _ = select_first_specification(changes.dropna(subset=["measure"]))
    exceeding = first_changes[first_changes["verdict"] == EXCEEDS]
    missing = changes[changes["measure"].isna()]
    context = {
        "specification": specification,
        "n_others": n_others,
        "overview": [_format(row) for row in to_records(summarise_perturbations(selected))],
        "summary": group_rows([_format(row) for row in to_records(selected)], PERTURB),
        "pictures": folder.write_figures([*draw_changes(selected)]),
        "exceeding": group_rows(to_records(exceeding), PERTURB),
        "n_exceeding": len(exceeding),
        "alpha": ALPHA,
        "all": ALL,
        "missing": to_records(missing[[*JOB, "reason"]]),
    }
    return Section(
        rows=pd.DataFrame(),
        templates=Path(__file__).with_name("templates"),
        context={"sensitivity": context},
        body=("sensitivity.html",),
        conclusions=draw_conclusions(selected),
        links=(("perturbations", "Perturbed pictures"),),
    )


def _format(row: dict[str, Any]) -> dict[str, Any]:
    """Format relative changes in percent; the number of intervals that would exclude 0 by chance."""
    names = ("relative", "relative_low", "relative_high", "median", "lowest", "highest")
    texts = {f"{name}_text": format_share(row[name]) for name in names if name in row}
    return row | texts | {"by_chance": ALPHA * row.get("intervals", 0)}


def build_comparison(findings: Findings) -> Sequence[RenderableType]:
    """Return a table with a row per perturbation and a column per model, or over all if there is one."""
    if not has_perturbations(findings):
        return []
    summary, specification, _ = select_first_specification(compute_changes(findings)[1])
    rows = summarise_perturbations(summary)
    if rows.empty:
        return []
    lines: dict[str, dict[str, str]] = {}
    for row in rows.to_dict("records"):
        relative = f"{format_share(row['lowest'])} to {format_share(row['highest'])}"
        text = f"{format_share(row['median'])} ({relative}); {row['clear']} of {row['comparisons']}; "
        text += f"{row['exceeding']} of {row['statistics']}"
        lines.setdefault(row[PERTURB], {PERTURB: row[PERTURB]})[row["model"]] = text
    frame = pd.DataFrame(lines.values())
    return [build_table(frame, f"{findings.dataset}: {TITLE} ({specification})")]


# The study has no jobs: its report compares the jobs of other studies.
STUDY = StudyReport(section=build_section, comparison=build_comparison)
