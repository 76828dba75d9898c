"""Tables of the page, as plain values for its templates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from src.report.format import COLUMNS, records
from src.studies.propagation.paper_figures import PAIRS
from src.studies.propagation.paper_values import beside
from src.studies.propagation.tables import OVERALL, summary

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


def arranged(analyses: pd.DataFrame) -> pd.DataFrame:
    """Return the analyses with every column of the page, in the order of the paper."""
    return ordered(completed(analyses))


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
