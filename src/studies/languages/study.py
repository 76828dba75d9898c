"""Build the report's section on languages, which compares jobs of propagation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import RenderableType

from src.report.findings import Findings, first_specification, list_specifications
from src.report.folder import ReportFolder
from src.report.format import group_rows, to_records
from src.report.study import Section, StudyReport
from src.report.tables import build_table, describe
from src.studies.languages.differences import JOB, REFUSED, compute_differences, has_languages
from src.studies.languages.figures import draw_levels
from src.studies.languages.overview import (
    describe_row,
    draw_conclusions,
    label_languages,
    name_language,
    summarise_languages,
)
from src.studies.languages.translation_shares import compute_shares, describe_shares
from src.studies.languages.validity import LANGUAGE, YES
from src.studies.languages.withheld import withhold_unplaced

ALPHA = 0.05
# Columns that identify a row of the page, and measures of its columns.
ROW = ["exp", "model", "item", "label"]
MEASURES = ("level", "rho", "mean intrinsic", "mean outcome")
NUMBERS = ("value", "low", "high", "difference", "difference_low", "difference_high")


def select(table: pd.DataFrame) -> tuple[pd.DataFrame, str, int]:
    """Select and label the rows of the first specification; return also its name and the number of others."""
    specifications = list_specifications(table)
    rows = first_specification(table)
    return rows.assign(label=label_languages(rows)), describe(specifications[0]), len(specifications) - 1


def build_section(findings: Findings, folder: ReportFolder) -> Section | None:
    """Write the figures and the table on languages; return the section, None without any."""
    table = compute_differences(findings) if has_languages(findings) else pd.DataFrame()
    if table.empty:
        return None
    folder.write_table(
        "languages", table, "measures by language and differences to English, all specifications"
    )
    shares = compute_shares(findings, table)
    if not shares.empty:
        folder.write_table(
            "translation_shares",
            shares,
            "share of differences of levels to English that comes with translation",
        )
    rows, specification, n_others = select(table)
    summary, shares = summarise_languages(rows), shares[shares["config_translated"].isin(rows["config"])]
    conclusions = [*draw_conclusions(summary), *describe_shares(shares)]
    n_interpreted = int(summary[["level_interpreted", "rho_interpreted"]].sum().sum())
    checks = rows[rows["checks"].eq(True) & (rows["measure"] == "measured")]
    keys = ["config", "item"]
    validity = rows[rows["measure"] == "validity"].set_index(keys)["value"].rename("validity")
    without_interval = rows[(rows["reason"] != "") & rows["measure"].isin(["level"])]
    reasons = without_interval.drop_duplicates(["exp", "model", "label", "reason"])
    lost = table[table["measure"].isna()]
    context = {
        "specification": specification,
        "n_others": n_others,
        "checks": to_records(checks.join(validity, on=keys)),
        "sentences": conclusions,
        "n_interpreted": n_interpreted,
        "by_chance": ALPHA * n_interpreted,
        "shares": to_records(shares.assign(label=shares[LANGUAGE].map(name_language))),
        "pictures": folder.write_figures([*draw_levels(rows)]),
        "rows": group_rows([*_widen(rows)], "exp"),
        "missing": to_records(
            pd.concat([lost.assign(label=label_languages(lost)), reasons])[[*JOB, "label", "reason"]]
        ),
    }
    return Section(
        rows=pd.DataFrame(),
        templates=Path(__file__).with_name("templates"),
        context={"languages": context},
        body=("languages.html",),
        conclusions=conclusions,
        links=(("languages", "Languages"),),
    )


def _widen(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Arrange the rows of a specification, one per `ROW`; columns are measure and number, `level_value`."""
    wide: dict[tuple[str, ...], dict[str, Any]] = {}
    empty = {f"{measure}_{name}": float("nan") for measure in MEASURES for name in NUMBERS}
    for row in to_records(rows[rows["measure"].isin(MEASURES)]):
        names = {name: row[name] for name in (*ROW, LANGUAGE)}
        is_placed = {"placed": row["placed"] == YES}
        cells = wide.setdefault(tuple(names[name] for name in ROW), {**names, **is_placed, **empty})
        # A difference of ρ that is not interpreted is in the CSV only.
        names_of_numbers = NUMBERS[:3] if row["measure"] == "rho" and row["verdict"] in REFUSED else NUMBERS
        cells |= {f"{row['measure']}_{name}": row[name] for name in names_of_numbers}
    order = {name: rank for rank, name in enumerate(dict.fromkeys(rows["label"]))}
    return sorted(wide.values(), key=lambda row: (row["model"], str(row["item"]), order[row["label"]]))


def build_comparison(findings: Findings) -> Sequence[RenderableType]:
    """Return a table with a row per model, language and text: is it placed, what differs from English."""
    table = compute_differences(findings) if has_languages(findings) else pd.DataFrame()
    if table.empty:
        return []
    rows, specification, _ = select(table)
    lines = [
        {
            "model": row["model"],
            "language": row["label"],
            "text": row["text"],
            "result": describe_row(row),
        }
        for row in summarise_languages(rows).to_dict("records")
    ]
    return [build_table(pd.DataFrame(lines), f"{findings.dataset}: languages ({specification})")]


# The study has no jobs: its report compares the jobs of propagation.
STUDY = StudyReport(section=build_section, comparison=build_comparison, withhold=withhold_unplaced)
