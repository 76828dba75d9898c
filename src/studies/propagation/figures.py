"""Plot scores and rho of runs and sweeps, without pictures of faces."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from src.report import heatmap as report_heatmap
from src.report.drawing import Drawing, clean, style_of
from src.report.forest_plot import (
    describe_rows,
    draw_marks,
    forest_plot,
    format_digits,
    make_figure,
    sort_by,
)

LABEL, LIMITS = "Spearman's ρ", (-1.02, 1.02)  # of the axis of rho
# Sentences of captions.
POINT = "Each point is an analysis; its ρ is at the right."
INTERVAL = "Its line is the 95% interval."
HOLLOW = (
    "Grey: from the mean to the 95th percentile (tick) of its placebo. Hollow points are not above that "
    "percentile."
)
LEVEL_LABEL = "level of carry-over"
LEVEL_CAPTION = (
    "Each point is an analysis; its level is at the right, its line is the 95% interval. Level: outcome "
    "against the other groups, or per SD of the rating. Hollow: q > .05 under permutations of the corpus's "
    "property."
)
CORRECTED_CAPTION = (
    "Each point is ρ corrected for the noise of the corpus, with its value at the right; its line is the 95% "
    "interval. It may exceed 1. Cross: ρ. Tick: ρ across halves of the corpus. Grey: up to the noise ceiling."
)
# Of the axis of corrected rhos.
CORRECTED_LIMITS = (-1.02, 1.52)
# With more points, a seeded sample is drawn and the figure states its size.
MAX_POINTS = 2000
# Cells across a heatmap; further experiments start a new row.
COLUMNS = 24
SCALE = report_heatmap.Scale(
    colours="PuOr_r",
    norm=Normalize(-1, 1),
    dark=lambda rho: abs(rho) > 0.75,
    bar={"label": "Spearman's ρ", "pad": 0.01, "aspect": 15},
)


def scatter(
    targets: pd.DataFrame, analyses: pd.DataFrame, *, title: str, intrinsic: str, outcome: str
) -> tuple[Figure, str]:
    """Plot intrinsic score against outcome, a point per unit and stratum, coloured by stratum.

    `intrinsic` and `outcome` name the scores on the axes; the tables are a job's targets.parquet and
    analyses.csv. Return the figure and its text alternative.
    """
    samples, key, texts = [], [], []
    for number, stratum in enumerate(analyses["stratum"]):
        rows = targets[targets["stratum"] == stratum].dropna(subset=["intrinsic", "extrinsic"])
        sample = rows.sample(min(len(rows), MAX_POINTS // len(analyses)), random_state=0)
        analysis = analyses[analyses["stratum"] == stratum].iloc[0]
        has_rho = pd.notna(analysis["rho"])
        text = f"ρ = {analysis['rho']:.2f}, n = {analysis['n']}" if has_rho else analysis["reason"]
        label = f"{clean(stratum, 25)}\n{clean(text, 27)}"
        label += f"\n{len(sample)} shown" if len(sample) < len(rows) else ""
        samples.append(sample)
        key.append(Line2D([], [], linestyle="", markersize=5, label=label, **style_of(number)))
        texts.append(f"{stratum}: {text}")
    figure, axes = make_figure(3, title, key)
    for number, sample in enumerate(samples):
        x, y = sample["intrinsic"], sample["extrinsic"]
        axes.scatter(x, y, s=11, alpha=0.55, linewidths=0, **style_of(number))
    axes.set(xlabel=f"intrinsic: {intrinsic}", ylabel=f"extrinsic: {outcome}")
    axes.spines[:].set_visible(True)
    axes.grid(alpha=0.25)
    return figure, f"Scatter plot. {title}. {outcome} against {intrinsic}. {'; '.join(texts)}."


def heatmap(analyses: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Plot every rho by experiment (panels), model (down) and group (across); return it with its text."""
    names = analyses["model"]
    # Rows of the same model are distinguished by columns that vary within the sweep.
    for column in ("debias", "protocol", "seed"):
        if analyses[column].nunique() > 1:
            names = names + f", {column} " + analyses[column].astype(str)
    labelled = analyses.assign(model=names, group=analyses["group"].fillna(analyses["stratum"]))
    models = [*dict.fromkeys(labelled["model"])]
    grids = {}
    for exp, rows in labelled.groupby("exp", sort=False):
        last = rows.drop_duplicates(["model", "group"], keep="last")
        grid = last.pivot(index="model", columns="group", values="rho")
        name = f"{str(exp).replace('_', ' ')}\n{rows['paper'].iloc[0]}"
        grids[name] = grid.reindex(index=models, columns=[*dict.fromkeys(rows["group"])])
    figure = report_heatmap.draw_heatmap(grids, SCALE, title=title, columns=COLUMNS)
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    texts = "; ".join(f"{row.exp}, {row.model}: {row.rho:.2f}" for row in means.itertuples())
    return figure, f"Heatmaps of ρ by model and group, one per experiment. {title}. Means: {texts}."


def plot_rhos(
    rows: pd.DataFrame, series: Sequence[str], *, by: tuple[str, str], name: str, title: str
) -> Drawing:
    """Plot rho of rows of analyses.csv with its interval and placebo, in blocks.

    `by` are the columns that define a block and a series; the order of `series` determines colour and shape.
    """
    columns = {"rho": "value", "ci_low": "low", "ci_high": "high"}
    columns |= {"placebo_mean": "band_low", "placebo_q95": "band_high"}
    values = rows.assign(block=rows[by[0]], series=rows[by[1]].astype(str)).rename(columns=columns)
    values = sort_by(values, block=(), series=series)
    # Without a placebo, all points are filled.
    values["filled"] = ~(values["value"] <= values["band_high"])
    values["text"] = values["value"].map(format_digits)
    values["words"] = values["series"] + " " + values["text"]
    texts: dict[str, Any] = {"band": "placebo: mean to 95th", "hollow": "not above placebo"}
    figure, axes, values = forest_plot(
        values, title=title, label=LABEL, series=series, limits=LIMITS, **texts
    )
    draw_marks(axes, values["band_high"], values["y"])
    optional = {INTERVAL: "low", HOLLOW: "band_high"}
    caption = [POINT, *(text for text, column in optional.items() if values[column].notna().any())]
    alternative = f"Dot plot of ρ with intervals and placebo. {title}. {describe_rows(values)}."
    return Drawing(name, figure, title, alternative, " ".join(caption))


def plot_levels(
    rows: pd.DataFrame, series: Sequence[str], *, by: tuple[str, str], name: str, title: str
) -> Drawing:
    """Plot levels of rows of analyses.csv with their intervals, as `plot_rhos`."""
    columns = {"level": "value", "level_low": "low", "level_high": "high"}
    values = rows.assign(block=rows[by[0]], series=rows[by[1]].astype(str)).rename(columns=columns)
    values = sort_by(values, block=(), series=series)
    values["filled"] = ~(values["level_q"] > 0.05)
    values["text"] = values["value"].map(partial(format_digits, digits=3))
    values["words"] = values["series"] + " " + values["text"]
    figure, _, values = forest_plot(values, title=title, label=LEVEL_LABEL, series=series, hollow="q > .05")
    alternative = f"Dot plot of levels of carry-over with intervals. {title}. {describe_rows(values)}."
    return Drawing(name, figure, title, alternative, LEVEL_CAPTION)


def plot_corrected(rows: pd.DataFrame, series: Sequence[str], *, name: str, title: str) -> Drawing:
    """Plot rho, rho across halves and corrected rho, with the noise ceiling, by stratum and model."""
    columns = {"rho_true": "value", "rho_true_low": "low", "rho_true_high": "high"}
    columns |= {"noise_ceiling": "band_high"}
    values = rows.assign(block=rows["stratum"], series=rows["model"].astype(str)).rename(columns=columns)
    values = sort_by(values, block=(), series=series)
    values["band_low"] = values["band_high"].where(values["band_high"].isna(), 0)
    values["text"] = values["value"].map(format_digits).replace("undefined", "refused")
    values["words"] = values["series"] + ": corrected " + values["text"]
    for word, column in {"ρ": "rho", "across halves": "rho_cross", "ceiling": "band_high"}.items():
        values["words"] += f", {word} " + values[column].map(format_digits)
    cross: dict[str, Any] = {"linestyle": "", "color": "black", "markersize": 4.5}
    key = [
        Line2D([], [], label="ρ", marker="x", **cross),
        Line2D([], [], label="ρ across halves", marker="|", **cross),
    ]
    figure, axes, values = forest_plot(
        values,
        title=title,
        label=f"corrected {LABEL}",
        series=series,
        band="noise ceiling",
        key=key,
        limits=CORRECTED_LIMITS,
    )
    axes.plot(values["rho"], values["y"], marker="x", zorder=5, **cross)
    draw_marks(axes, values["rho_cross"], values["y"], color="black")
    alternative = f"Dot plot of ρ and corrected ρ. {title}. {describe_rows(values)}."
    return Drawing(name, figure, title, alternative, CORRECTED_CAPTION)
