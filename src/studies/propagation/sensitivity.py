"""Summarise rho under every specification of a sweep by median and range; no significance tests."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import PALETTE, Drawing, style_of
from src.report.findings import Findings
from src.report.forest_plot import BAND, describe_rows, draw_marks, forest_plot, format_digits, legend_handles
from src.studies.propagation.combined import main_analyses, score_names
from src.studies.propagation.figures import LABEL, LIMITS

DRAWS = "A and B from halves"
# Columns of tables/sensitivity.csv, whose `reading` is the name of a specification.
COLUMNS = ["exp", "paper", "reading", "rhos", "median", "lowest", "highest", "above"]


def name_specifications(analyses: pd.DataFrame) -> pd.Series:
    """Name the specification of each analysis: its protocol, and debias where it varies in the sweep."""
    protocol, debias = analyses["protocol"].astype(str), analyses["debias"].astype(str)
    # Seeds are summarised by their spread, not listed.
    return protocol + ", debias " + debias if debias.nunique() > 1 else protocol


def attribute_draws(findings: Findings) -> pd.DataFrame:
    """Read rho with A and B from halves, of the first specification: `exp, model, stratum, rho`."""
    tables = []
    for job in main_analyses(findings).drop_duplicates("config").to_dict("records"):
        if findings.has(job["config"], "draws"):
            draws = findings.read(job["config"], "draws")
            draws = draws.loc[draws["kind"] == "attributes", ["stratum", "rho"]]
            tables.append(draws.assign(exp=job["exp"], model=job["model"]))
    columns = ["exp", "model", "stratum", "rho"]
    return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)


def table(findings: Findings, draws: pd.DataFrame) -> pd.DataFrame:
    """Summarise median, range and share above the placebo per experiment and specification (`COLUMNS`).

    `rhos` counts the defined values over models, groups and seeds; `above` is the share of these that exceed
    their placebo's 95th percentile (NaN without a placebo). The row `all` pools the specifications
    with the same measure and outcome as the first: other scores are not comparable. `draws`, the result of
    `attribute_draws`, has a row of its own.
    """
    analyses = findings.of("propagation")
    analyses = analyses.assign(reading=name_specifications(analyses), scores=score_names(analyses))
    first_scores = score_names(main_analyses(findings))
    rows = []
    for (exp, paper), exp_rows in analyses.groupby(["exp", "paper"], sort=False):
        frames: dict[Any, pd.DataFrame] = {"all": exp_rows[exp_rows["scores"].isin(first_scores)]}
        frames |= dict(iter(exp_rows.groupby("reading", sort=False)))
        if len(exp_draws := draws[draws["exp"] == exp]):
            frames[DRAWS] = exp_draws.assign(placebo_q95=np.nan)
        exp_columns = {"exp": exp, "paper": paper}
        rows += [exp_columns | {"reading": name} | _summarise(frame) for name, frame in frames.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def multiverse(findings: Findings, draws: pd.DataFrame, summary: pd.DataFrame, exp: str) -> Drawing:
    """Plot every rho of an experiment, a line per specification; `summary` is the result of `table`."""
    analyses = findings.of("propagation")
    models = [*dict.fromkeys(analyses["model"])]
    analyses = analyses.assign(reading=name_specifications(analyses))
    analyses, redraws = analyses[analyses["exp"] == exp], draws[draws["exp"] == exp]
    points = pd.concat([analyses, redraws.assign(reading=DRAWS)])
    lines = summary[(summary["exp"] == exp) & (summary["reading"] != "all")]
    lines = lines.sort_values("median", ascending=False, kind="stable")
    coloured = len(models) <= len(PALETTE)
    title = f"{exp}: every specification"
    key = legend_handles(models if coloured else ["a model"])
    key = [*key, Line2D([], [], color="black", linewidth=1.6, label="median")]
    median, lowest, highest = (lines[name].map(format_digits) for name in ("median", "lowest", "highest"))
    words = "median " + median + ", " + lowest + " to " + highest
    lines = lines.assign(block=lines["reading"], text=median, words=words)
    figure, axes, lines = forest_plot(lines, title=title, label=LABEL, key=key, limits=LIMITS)
    axes.hlines(lines["y"], lines["lowest"], lines["highest"], color=BAND, linewidth=1)
    points = points.merge(lines[["reading", "y"]])
    for number, model in enumerate(models if coloured else [None]):
        rows = points if model is None else points[points["model"] == model]
        axes.plot(rows["rho"], rows["y"], linestyle="", markersize=4, alpha=0.45, mew=0, **style_of(number))
    draw_marks(axes, lines["median"], lines["y"], color="black")
    caption = (
        "Each line is a specification, each point a ρ (model and group; all seeds); stroke and number are "
        f"their median. “{DRAWS}” are of the first specification."
    )
    return Drawing(f"multiverse-{exp}", figure, title, f"Dot plot. {title}. {describe_rows(lines)}.", caption)


def _summarise(rows: pd.DataFrame) -> dict[str, float]:
    rho, compared = rows["rho"], rows.dropna(subset=["rho", "placebo_q95"])
    summary = {"rhos": rho.count(), "median": rho.median(), "lowest": rho.min(), "highest": rho.max()}
    return summary | {"above": (compared["rho"] > compared["placebo_q95"]).mean()}
