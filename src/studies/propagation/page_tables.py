"""Tables of the page, as plain values for its templates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from src.report.forest_plot import in_order
from src.report.format import COLUMNS, records
from src.studies.propagation.paper_figures import PAIRS
from src.studies.propagation.paper_values import beside
from src.studies.propagation.tables import OVERALL, summary

Row = Mapping[str, Any]


def arranged(analyses: pd.DataFrame) -> pd.DataFrame:
    """Return the analyses with every column of the page, the paper's experiments first, in its order.

    Columns that a job had switched off are NaN.
    """
    names = (*(column.name for column in COLUMNS), "rho_placebo_units")
    completed = analyses.assign(**{name: math.nan for name in names if name not in analyses})
    return in_order(
        completed, exp=[*dict.fromkeys([*(exp for pair in PAIRS for exp in pair), *completed["exp"]])]
    )


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
