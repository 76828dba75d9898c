"""Build the report's section on what predicts the bias of models, from jobs of the other studies."""

from pathlib import Path
from typing import Any

import pandas as pd

from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.format import MAX_ROWS, format_number, group_rows, to_records
from src.report.study import Section, StudyReport
from src.studies.predictors.associations import (
    SIGNIFICANT,
    count_small_p,
    format_p,
    list_refusals,
    measure_associations,
)
from src.studies.predictors.conclusions import state_conclusions
from src.studies.predictors.family_table import (
    CATEGORIES,
    KEYS,
    LABELS,
    OUTCOMES,
    average_over_analyses,
    build_family_table,
    name_outcome,
)
from src.studies.predictors.figures import plot_shares
from src.studies.predictors.regression import ALL, regress_outcomes
from src.studies.shared.model_families import MIN_FAMILIES

# Minimum number of models for a section.
MIN_MODELS = 2
MAX_NAMED = 12  # maximum number of families in a list of the page; the others are counted


def build_section(findings: Findings, folder: ReportFolder) -> Section | None:
    """Write the figures and tables on predictors; return the section, None for a single model."""
    if average_over_analyses(findings)["model"].nunique() < MIN_MODELS:
        return None
    families = build_family_table(findings)
    associations = measure_associations(families)
    shares, coefficients = regress_outcomes(families)
    folder.write_table(
        "predictors-families", families, "outcomes and declared predictors by family of models"
    )
    folder.write_table("predictors", associations, "each outcome with each declared predictor alone")
    folder.write_table("predictors-shares", shares, "shares of the variance that predictors explain together")
    folder.write_table("predictors-coefficients", coefficients, "coefficients of the regressions")
    small, count = count_small_p(associations)
    context = {
        "families": families["family"].nunique(),
        "min_families": MIN_FAMILIES,
        "columns": {name: _label_column(name) for name in LABELS},
        "associations": group_rows(_lay_out_associations(associations), "outcome"),
        "p_values": count,
        "small": small,
        "by_chance": SIGNIFICANT * count,
        "refusals": [*list_refusals(associations)],
        "unknown": _list_unknown(families),
        "pictures": folder.write_figures([*plot_shares(shares)]),
        "shares": group_rows(_name_rows(shares[shares["share"].notna()])[:MAX_ROWS], "outcome"),
        "coefficients": group_rows(_name_rows(coefficients)[:MAX_ROWS], "outcome"),
        "reasons": _list_reasons(shares),
        "outcomes": OUTCOMES,
        "labels": LABELS | {ALL: "all: R²"},
    }
    return Section(
        rows=pd.DataFrame(),
        templates=Path(__file__).with_name("templates"),
        context={"predictors": context},
        body=("predictors.html",),
        conclusions=state_conclusions(associations, shares),
        links=(("predictors", "What predicts it"),),
    )


def _label_column(predictor: str) -> str:
    statistic = "η²" if predictor in CATEGORIES else "ρ"
    return f"{LABELS[predictor]}, {statistic}"


def _lay_out_associations(associations: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row per outcome with any association, and a cell per predictor."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in to_records(associations[associations["value"].notna()]):
        key = tuple(row[name] for name in KEYS)
        entry = rows.setdefault(key, {"outcome": row["outcome"], "name": name_outcome(row), "cells": {}})
        entry["cells"][row["predictor"]] = row | {"null": _describe_null(row)}
    return [*rows.values()]


def _describe_null(row: dict[str, Any]) -> str:
    expected = f"shuffled {format_number(row['expected'])}, " if row["expected"] else ""
    return f"{expected}{format_p(row['p'])}, n = {row['families']}"


def _name_rows(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [row | {"name": name_outcome(row)} for row in to_records(rows)]


def _list_unknown(families: pd.DataFrame) -> list[dict[str, Any]]:
    """List the families without a value of each predictor that is known for some."""
    by_family = families.drop_duplicates("family").set_index("family")[[*LABELS]]
    rows = []
    for name in LABELS:
        names = by_family.index[by_family[name].isna()]
        if 0 < len(names) < len(by_family):
            rows.append({"predictor": LABELS[name], "families": [*names[:MAX_NAMED]], "count": len(names)})
    return rows


def _list_reasons(shares: pd.DataFrame) -> list[dict[str, Any]]:
    """List the reasons why predictors or outcomes have no estimate or interval, with numbers of outcomes."""
    refused = shares[shares["reason"] != ""]
    return [
        {"predictor": str(predictor), "reason": reason, "outcomes": len(rows)}
        for (predictor, reason), rows in refused.groupby(["predictor", "reason"], sort=False)
    ]


# The study has no jobs: its report relates the jobs of other studies to their models.
STUDY = StudyReport(section=build_section)
