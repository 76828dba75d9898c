"""Describe rho under every specification of a sweep by median and range."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import PALETTE, Drawing, style_of
from src.report.findings import Findings
from src.report.forest_plot import (
    BAND_COLOUR,
    build_legend_handles,
    describe_rows,
    draw_forest_plot,
    draw_marks,
    format_digits,
)
from src.studies.propagation.combined import score_names_of, select_main_analyses
from src.studies.propagation.figures import RHO_LABEL, RHO_LIMITS

FROM_HALVES = "A and B from halves"
# Columns of tables/sensitivity.csv. `reading`: name of a specification; `rhos`: number of defined rhos;
# `above`: share of these above their placebo's 95th percentile, NaN without a placebo.
COLUMNS = ["exp", "paper", "reading", "rhos", "median", "lowest", "highest", "above"]


def name_specifications(analyses: pd.DataFrame) -> pd.Series:
    """Name the specification of each analysis by its protocol, and by other choices that vary in the sweep.

    These are `debias` and `perturb`; the seeds of a specification are pooled.
    """
    names = analyses["protocol"].astype(str)
    for column in ("debias", "perturb"):
        if analyses[column].nunique() > 1:
            names = names + f", {column} " + analyses[column].astype(str)
    return names


def read_attribute_draws(findings: Findings) -> pd.DataFrame:
    """Read rho under A and B from halves, first specification only: `exp, model, stratum, rho`."""
    tables = []
    for job in select_main_analyses(findings).drop_duplicates("config").to_dict("records"):
        if findings.has(job["config"], "draws"):
            draws = findings.read(job["config"], "draws")
            draws = draws.loc[draws["kind"] == "attributes", ["stratum", "rho"]]
            tables.append(draws.assign(exp=job["exp"], model=job["model"]))
    columns = ["exp", "model", "stratum", "rho"]
    return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)


def summarise_specifications(findings: Findings, draws: pd.DataFrame) -> pd.DataFrame:
    """Summarise rho over models, groups and seeds, per experiment and specification (columns: `COLUMNS`).

    The row `all` pools the specifications with the same measure and outcome as the first; a further row
    summarises `draws`, the result of `read_attribute_draws`.
    """
    analyses = findings.of("propagation")
    analyses = analyses.assign(reading=name_specifications(analyses), scores=score_names_of(analyses))
    first_scores = score_names_of(select_main_analyses(findings))
    rows = []
    for (exp, paper), exp_rows in analyses.groupby(["exp", "paper"], sort=False):
        frames: dict[Any, pd.DataFrame] = {"all": exp_rows[exp_rows["scores"].isin(first_scores)]}
        frames |= dict(iter(exp_rows.groupby("reading", sort=False)))
        if len(exp_draws := draws[draws["exp"] == exp]):
            frames[FROM_HALVES] = exp_draws.assign(placebo_q95=np.nan)
        exp_columns = {"exp": exp, "paper": paper}
        rows += [exp_columns | {"reading": name} | _summarise(frame) for name, frame in frames.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def plot_multiverse(findings: Findings, draws: pd.DataFrame, summary: pd.DataFrame, exp: str) -> Drawing:
    """Plot every rho of an experiment, a row per specification.

    `draws` and `summary` are the results of `read_attribute_draws` and `summarise_specifications`.
    """
    analyses = findings.of("propagation")
    models = [*dict.fromkeys(analyses["model"])]
    analyses = analyses.assign(reading=name_specifications(analyses))
    analyses, redraws = analyses[analyses["exp"] == exp], draws[draws["exp"] == exp]
    points = pd.concat([analyses, redraws.assign(reading=FROM_HALVES)])
    rows = summary[(summary["exp"] == exp) & (summary["reading"] != "all")]
    rows = rows.sort_values("median", ascending=False, kind="stable")
    coloured = len(models) <= len(PALETTE)
    title = f"{exp}: every specification"
    key = build_legend_handles(models if coloured else ["a model"])
    key = [*key, Line2D([], [], color="black", linewidth=1.6, label="median")]
    median, lowest, highest = (rows[name].map(format_digits) for name in ("median", "lowest", "highest"))
    alt_texts = "median " + median + ", " + lowest + " to " + highest
    rows = rows.assign(block=rows["reading"], text=median, alt_text=alt_texts)
    figure, axes, rows = draw_forest_plot(
        rows, title=title, label=RHO_LABEL, further_entries=key, limits=RHO_LIMITS
    )
    axes.hlines(rows["y"], rows["lowest"], rows["highest"], color=BAND_COLOUR, linewidth=1)
    points = points.merge(rows[["reading", "y"]])
    for index, model in enumerate(models if coloured else [None]):
        series = points if model is None else points[points["model"] == model]
        axes.plot(
            series["rho"], series["y"], linestyle="", markersize=4, alpha=0.45, mew=0, **style_of(index)
        )
    draw_marks(axes, rows["median"], rows["y"], color="black")
    caption = (
        "Each row is a specification, each point the ρ of a model, group and seed; the stroke and the number "
        f"are the median. “{FROM_HALVES}” is under the first specification only."
    )
    return Drawing(f"multiverse-{exp}", figure, title, f"Dot plot. {title}. {describe_rows(rows)}.", caption)


def _summarise(rows: pd.DataFrame) -> dict[str, float]:
    rho, with_placebo = rows["rho"], rows.dropna(subset=["rho", "placebo_q95"])
    summary = {"rhos": rho.count(), "median": rho.median(), "lowest": rho.min(), "highest": rho.max()}
    return summary | {"above": (with_placebo["rho"] > with_placebo["placebo_q95"]).mean()}
