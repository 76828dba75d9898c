"""Build the report's section on debiasing, which compares jobs of the other studies."""

from pathlib import Path
from typing import Any

import pandas as pd

from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.format import format_number, group_rows, to_records
from src.report.study import Section, StudyReport
from src.studies.debiasing import audit_figures, estimates
from src.studies.debiasing.changes import COLUMNS, DEBIAS, IAT, SPREADS, STUDIES, compute_changes
from src.studies.debiasing.conclusions import draw_conclusions
from src.studies.debiasing.improved_models import count_improved
from src.studies.shared.job_pairs import NAMES, list_treatments
from src.studies.shared.spreads import MARGIN


def build_section(findings: Findings, folder: ReportFolder) -> Section | None:
    """Write the figures and tables on debiasing; return the section, None if nothing was debiased."""
    # The sections of other studies have their own comparison of debiasing, or none.
    present = {study for study, frame in findings.frames.items() if len(frame)}
    if not list_treatments(findings, DEBIAS, STUDIES) or (present and not present & {*STUDIES}):
        return None
    all_changes = compute_changes(findings)
    selected = estimates.select_first_specification(all_changes)
    estimated = estimates.estimate_changes(selected)
    score = estimates.find_score_label(selected, findings.of("propagation"))
    folder.write_table(
        "debiasing", all_changes[COLUMNS], "numbers with and without debiasing, all specifications"
    )
    folder.write_table("debiasing-models", estimated, "changes by debiasing, per model and over all")
    counts = count_improved(estimates.select_models(estimated))
    if len(counts):
        folder.write_table(
            "debiasing-counts", counts, "models in which |CLES − ½| fell, next to the paper's counts"
        )
    first: Any = None if selected.empty else selected.iloc[0]
    # The table also lists spreads whose comparisons are all refused.
    is_compared = (estimated["comparisons"] > 0) | estimated["measure"].isin(SPREADS)
    rows = [row | _format_change(row) for row in to_records(estimated[is_compared])]
    labels = {key: label.replace(estimates.SC_EAT, score) for key, label in estimates.MEASURE_LABELS.items()}
    context = {
        "specification": "" if selected.empty else _describe_specification(first),
        "n_specifications": len(all_changes[["perturb", "protocol", "seed"]].drop_duplicates()),
        "estimates": group_rows(
            sorted(rows, key=lambda row: [*estimates.MEASURE_LABELS].index(row["measure"])), "measure"
        ),
        "labels": labels | {IAT: "IAT"},
        "score": score,
        "margin": MARGIN,
        "comparisons": group_rows(to_records(selected.loc[~selected["lacks_results"], COLUMNS]), "measure"),
        "counts": to_records(counts),
        **_write_audit_figures(findings, selected, folder),
        "missing": to_records(all_changes.loc[all_changes["lacks_results"], [*NAMES, "reason"]]),
    }
    return Section(
        rows=pd.DataFrame(),
        templates=Path(__file__).with_name("templates"),
        context={"debiasing": context},
        body=("debiasing.html",),
        conclusions=draw_conclusions(selected, score),
        links=(("debiasing", "Debiasing"),),
    )


def _describe_specification(row: Any) -> str:
    perturb = f", perturb {row['perturb']}" if row["perturb"] != "none" else ""
    return f"protocol {row['protocol']}, seed {row['seed']}{perturb}"


def _write_audit_figures(findings: Findings, selected: pd.DataFrame, folder: ReportFolder) -> dict[str, Any]:
    """Write figures 5 and 6b of Capitani et al. and their tables; return the values of the template."""
    split = audit_figures.measure_split_changes(findings, selected)
    summed = audit_figures.sum_gaps(findings, selected)
    if len(split):
        folder.write_table(
            "debiasing-split", split, "|CLES − ½| and its change, on separate halves of the faces"
        )
    if len(summed):
        folder.write_table("debiasing-summed", summed, "gaps summed over audits and pairs of groups")
    drawings = [audit_figures.draw_split_changes(split), audit_figures.draw_summed_gaps(summed)]
    pictures = folder.write_figures([drawing for drawing in drawings if drawing])
    return {"audit_figures": pictures, "summed": to_records(summed)}


def _format_change(row: dict[str, Any]) -> dict[str, str]:
    """Format the change and its interval as `change` and `interval`."""
    change, low, high = (_format_signed(row["measure"], row[name]) for name in ("value", "ci_low", "ci_high"))
    return {"change": change, "interval": "–" if pd.isna(row["ci_low"]) else f"{low} to {high}"}


def _format_signed(measure: str, value: float) -> str:
    """Format a change with its sign; the change of a spread in percent.

    >>> _format_signed("spread_outcome", -0.617), _format_signed("rho", 0.2), _format_signed("rho", -0.0001)
    ('−62%', '+0.200', '0.000')
    """
    text = f"{format_number(100 * value, 0)}%" if measure in SPREADS else format_number(value, 3)
    return f"+{text}" if value > 0 and text.strip("0.%") else text


# The study has no jobs: its report compares the jobs of other studies.
STUDY = StudyReport(section=build_section)
