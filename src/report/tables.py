"""The table that a sweep ends with, laid out like the paper's."""

from __future__ import annotations

import pandas as pd
from rich.table import Table
from rich.text import Text

OVERALL = "all"


def summary(analyses: pd.DataFrame) -> pd.DataFrame:
    """Mean and SD (ddof 1) of rho per experiment, per model and overall.

    Args:
        analyses: rows of analyses.csv of any number of jobs.

    Returns:
        One row per experiment and model, each also `all`: `exp`, `paper`, `model`, `mean`, `sd`,
        `analyses` (how many have a rho), `undefined` (how many have none).
    """
    parts = []
    for experiments in (["exp", "paper"], []):
        for models in (["model"], []):
            keys = experiments + models
            grouped = analyses.groupby(keys, sort=False)["rho"] if keys else analyses["rho"]
            table = grouped.agg(["mean", "std", "count", "size"])
            table = table.reset_index() if keys else table.to_frame().T
            parts.append(table)
    found = pd.concat(parts, ignore_index=True)
    found["undefined"] = found["size"] - found["count"]
    found = found.rename(columns={"std": "sd", "count": "analyses"}).drop(columns="size")
    for column in ("exp", "paper", "model"):
        found[column] = found[column].astype(object).fillna(OVERALL)
    return found[["exp", "paper", "model", "mean", "sd", "analyses", "undefined"]].astype(
        {"analyses": int, "undefined": int}
    )


def terminal(analyses: pd.DataFrame, title: str) -> Table:
    """The same as a table for the terminal: experiments down, models across."""
    found = summary(analyses)
    models = [*dict.fromkeys(found["model"])]
    table = Table(title=title, caption="mean ± SD of ρ (number of analyses)")
    table.add_column("experiment")
    table.add_column("paper")
    for model in models:
        table.add_column(str(model), justify="right", no_wrap=True)
    for (exp, paper), rows in found.groupby(["exp", "paper"], sort=False):
        cells = rows.set_index("model")
        table.add_row(
            str(exp),
            "" if exp == OVERALL else str(paper),
            *(_cell(cells.loc[model]) if model in cells.index else "–" for model in models),
            end_section=exp != OVERALL,
        )
    return table


def _cell(row: pd.Series) -> str:
    if row["analyses"] == 0:
        return f"none ({row['undefined']} undefined)"
    spread = "" if pd.isna(row["sd"]) else f" ± {row['sd']:.2f}"
    missing = f", {row['undefined']} undefined" if row["undefined"] else ""
    return f"{row['mean']:.2f}{spread} ({row['analyses']}{missing})"


def reasons(jobs: dict[str, str], title: str) -> Table:
    """Jobs that gave no numbers, those of one reason together."""
    table = Table(title=title, show_lines=True)
    table.add_column("jobs")
    table.add_column("reason")
    by_reason: dict[str, list[str]] = {}
    for job, reason in jobs.items():
        by_reason.setdefault(reason, []).append(job)
    for reason, names in by_reason.items():
        table.add_row(Text("\n".join(names)), Text(reason))
    return table
