"""The table that a sweep ends with, laid out like the paper's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from src.report.findings import READING
from src.report.tables import first, said
from src.studies.propagation.combined import score_names

OVERALL = "all"
# Ghate et al. 2025: mean and SD of rho over their three models' analyses (docs/methods.md, section 2).
PUBLISHED = Path(__file__).with_name("ghate2025.csv")
# The dataset that is made as theirs was: only there do their figures stand beside ours.
REPLICATED = "paper"
SPREAD = "; theirs over three models (CLIP B/32, L/14, BLIP-2): a spread over analyses, not a tolerance"


def above(analyses: pd.DataFrame) -> pd.Series:
    """Which rows have a rho above their placebo's 95th percentile; NA where one of the two is undefined."""
    if "placebo_q95" not in analyses:
        return pd.Series(pd.NA, analyses.index, dtype="boolean")
    known = analyses["rho"].notna() & analyses["placebo_q95"].notna()
    return (analyses["rho"] > analyses["placebo_q95"]).astype("boolean").where(known)


def readings(analyses: pd.DataFrame) -> pd.DataFrame:
    """How far rho depends on what the papers leave open; descriptive.

    Returns:
        One row per experiment, and one more per other `scores` than the paper's: `exp`, `paper`, `readings`;
        `median`, `lowest` and `highest` over the readings' means of rho; `above` of `compared` analyses, over
        all readings, lie above their placebo's 95th percentile, and their `share`.
    """
    of_placebo = analyses.assign(
        above=above(analyses).to_numpy(float, na_value=math.nan), scores=score_names(analyses)
    )
    rows = []
    for (exp, paper, scores), found in of_placebo.groupby(["exp", "paper", "scores"], sort=False):
        means = found.groupby(list(READING), sort=False)["rho"].mean()
        rows.append(
            {
                "exp": exp,
                "paper": paper,
                "scores": scores,
                "readings": len(means),
                "median": means.median(),
                "lowest": means.min(),
                "highest": means.max(),
                "above": int(found["above"].sum()),
                "compared": int(found["above"].count()),
                "share": found["above"].mean(),
            }
        )
    table = pd.DataFrame(rows)
    return table if len(rows) and table["scores"].any() else table.drop(columns="scores", errors="ignore")


def summary(analyses: pd.DataFrame) -> pd.DataFrame:
    """Mean and SD (ddof 1) of rho per experiment, per model and overall, of the first reading.

    Args:
        analyses: rows of analyses.csv of any number of jobs.

    Returns:
        One row per experiment and model, each also `all`: `exp`, `paper`, `model`, `mean`, `sd`,
        `analyses` (how many have a rho), `undefined` (how many have none); for `dataset=paper` also
        `published_mean` and `published_sd`, the paper's own.
    """
    analyses, _, _ = first(analyses)
    parts = []
    for experiments in (["exp", "paper"], []):
        for models in (["model"], []):
            keys = [*experiments, *models]
            # Grouped by a constant where nothing is told apart.
            by: Any = keys or [OVERALL] * len(analyses)
            grouped = analyses.groupby(by, sort=False)["rho"]
            parts.append(
                pd.DataFrame(
                    {
                        "mean": grouped.mean(),
                        "sd": grouped.std(ddof=1),
                        "analyses": grouped.count(),
                        "undefined": grouped.size() - grouped.count(),
                    }
                ).reset_index(drop=not keys)
            )
    found = pd.concat(parts, ignore_index=True)
    for column in ("exp", "paper", "model"):
        found[column] = found[column].astype(object).fillna(OVERALL)
    found = found[["exp", "paper", "model", "mean", "sd", "analyses", "undefined"]]
    if set(analyses.get("dataset", ())) != {REPLICATED}:
        return found
    # Keyed by experiment: theirs are of all models together.
    return found.merge(pd.read_csv(PUBLISHED), on="exp", how="left")


def nested(analyses: pd.DataFrame) -> dict[str, Any]:
    """Mean rho by model and experiment, and over all, for tools that compare such trees."""
    rho = analyses["rho"]
    found: dict[str, Any] = {
        "mean": rho.mean(),
        "sd": rho.std(ddof=1),
        "analyses": int(rho.count()),
        "undefined": int(rho.isna().sum()),
    }
    means = analyses.groupby(["model", "exp"])["rho"].mean().dropna().reset_index()
    for row in means.to_dict("records"):
        found.setdefault(str(row["model"]), {})[str(row["exp"])] = row["rho"]
    return found


def terminal(analyses: pd.DataFrame, title: str) -> Table:
    """The same as a table for the terminal: experiments down, models across."""
    found = summary(analyses)
    analyses, reading, others = first(analyses)
    better = above(analyses)
    models = [*dict.fromkeys(found["model"])]
    if len(models) == 2:
        # One model only: "all" says the same.
        models = models[:1]
    compared = "published_mean" in found
    caption = "mean ± SD of Spearman's ρ over analyses" + SPREAD * compared
    if better.notna().any():
        caption += "; above placebo: how many lie above their placebo's 95th percentile"
    if others:
        caption += f"; of {said(reading)}, the first of {others + 1} readings"
    table = Table(title=title, caption=caption)
    table.add_column("experiment", no_wrap=True)
    table.add_column("paper", no_wrap=True)
    for model in models:
        table.add_column(Text(str(model)), justify="right")
    if compared:
        table.add_column("Ghate et al.", justify="right", no_wrap=True)
    table.add_column("analyses", justify="right")
    if better.notna().any():
        table.add_column("above placebo", justify="right")
    for (exp, paper), rows in found.groupby(["exp", "paper"], sort=False):
        cells = rows.set_index("model")
        table.add_row(
            str(exp),
            "" if exp == OVERALL else str(paper),
            *(_mean_and_sd(cells.loc[model]) if model in cells.index else "" for model in models),
            *([_published(cells.loc[OVERALL])] if compared else []),
            _counts(cells.loc[OVERALL]),
            *([_above(better[(analyses["exp"] == exp) | (exp == OVERALL)])] if better.notna().any() else []),
            end_section=exp == found["exp"].iloc[-2],
        )
    return table


def spread(analyses: pd.DataFrame, dataset: str) -> tuple[pd.DataFrame, str]:
    """`readings` for the terminal, and its title."""
    found = readings(analyses)
    named = [name for name in ("exp", "paper", "scores", "readings") if name in found]
    shown = found[named].rename(columns={"exp": "experiment"})
    if "scores" in shown:
        shown["scores"] = shown["scores"].replace("", "the paper's")
    shown["median ρ"] = found["median"].map("{:.2f}".format)
    shown["range"] = found["lowest"].map("{:.2f}".format) + " to " + found["highest"].map("{:.2f}".format)
    counted = found["above"].astype(str) + " of " + found["compared"].astype(str)
    shown["above placebo"] = counted.where(found["compared"] > 0, "")
    return shown, f"{dataset}: mean ρ over {found['readings'].max()} readings; descriptive"


def _above(better: pd.Series) -> str:
    return f"{int(better.sum())} of {int(better.count())}"


def _published(row: Any) -> str:
    return (
        "" if pd.isna(row["published_mean"]) else f"{row['published_mean']:.2f} ± {row['published_sd']:.2f}"
    )


def _mean_and_sd(row: Any) -> str:
    if row["analyses"] == 0:
        return "none"
    return f"{row['mean']:.2f}" + ("" if pd.isna(row["sd"]) else f" ± {row['sd']:.2f}")


def _counts(row: Any) -> str:
    return f"{row['analyses']}" + (f", {row['undefined']} undefined" if row["undefined"] else "")
