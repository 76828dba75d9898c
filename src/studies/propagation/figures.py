"""Plot scores, rho and levels of jobs and sweeps."""

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
    draw_forest_plot,
    draw_marks,
    format_digits,
    make_figure,
    sort_by,
)

RHO_LABEL, RHO_LIMITS = "Spearman's ρ", (-1.02, 1.02)  # label and ends of the axis of rho
# Sentences of the caption of rho; the last two only with intervals and placebos.
POINT_CAPTION = "Each point is an analysis; its ρ is at the right."
INTERVAL_CAPTION = "Its line is the 95% interval."
HOLLOW_CAPTION = (
    "Grey: from the mean to the 95th percentile (tick) of its placebo; hollow points are not above this "
    "percentile."
)
LEVEL_LABEL = "level of carry-over"
LEVEL_CAPTION = (
    "Each point is an analysis; its level is at the right, its line is the 95% interval. Level: mean outcome "
    "minus that of the other groups, or change per SD of the rating. Hollow: q > .05 under permutations of "
    "the corpus's property."
)
CORRECTED_CAPTION = (
    "Each point is ρ corrected for the noise of the corpus, with its value at the right; its line is the 95% "
    "interval. It may exceed 1. Cross: ρ. Tick: ρ across halves of the corpus. Grey: up to the noise ceiling."
)
# Ends of the axis of corrected rho, which may exceed 1.
CORRECTED_LIMITS = (-1.02, 1.52)
# Maximum number of points; of more units, the figure shows a seeded sample and states its size.
MAX_POINTS = 2000
# Maximum number of cells across a heatmap; further experiments start a new row.
MAX_HEATMAP_COLUMNS = 24
HEATMAP_SCALE = report_heatmap.Scale(
    colours="PuOr_r",
    norm=Normalize(-1, 1),
    dark=lambda rho: abs(rho) > 0.75,
    bar={"label": "Spearman's ρ", "pad": 0.01, "aspect": 15},
)


def plot_scatter(
    targets: pd.DataFrame, analyses: pd.DataFrame, *, title: str, intrinsic: str, outcome: str
) -> tuple[Figure, str]:
    """Plot outcome against intrinsic score, a point per unit and stratum; return figure and alt text.

    `targets` and `analyses` are tables of a job; `intrinsic` and `outcome` are the labels of the axes.
    """
    samples, key, texts = [], [], []
    for index, stratum in enumerate(analyses["stratum"]):
        rows = targets[targets["stratum"] == stratum].dropna(subset=["intrinsic", "extrinsic"])
        sample = rows.sample(min(len(rows), MAX_POINTS // len(analyses)), random_state=0)
        analysis = analyses[analyses["stratum"] == stratum].iloc[0]
        has_rho = pd.notna(analysis["rho"])
        text = f"ρ = {analysis['rho']:.2f}, n = {analysis['n']}" if has_rho else analysis["reason"]
        label = f"{clean(stratum, 25)}\n{clean(text, 27)}"
        label += f"\n{len(sample)} shown" if len(sample) < len(rows) else ""
        samples.append(sample)
        key.append(Line2D([], [], linestyle="", markersize=5, label=label, **style_of(index)))
        texts.append(f"{stratum}: {text}")
    figure, axes = make_figure(3, title, key)
    for index, sample in enumerate(samples):
        x, y = sample["intrinsic"], sample["extrinsic"]
        axes.scatter(x, y, s=11, alpha=0.55, linewidths=0, **style_of(index))
    axes.set(xlabel=f"intrinsic: {intrinsic}", ylabel=f"extrinsic: {outcome}")
    axes.spines[:].set_visible(True)
    axes.grid(alpha=0.25)
    return figure, f"Scatter plot. {title}. {outcome} against {intrinsic}. {'; '.join(texts)}."


def plot_heatmap(analyses: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Plot rho by experiment, model (rows) and group (columns); return figure and alt text."""
    names = analyses["model"]
    # Tell rows of a model apart by the settings that vary within the sweep.
    for column in ("debias", "perturb", "protocol", "seed"):
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
    figure = report_heatmap.draw_heatmap(grids, HEATMAP_SCALE, title=title, columns=MAX_HEATMAP_COLUMNS)
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    texts = "; ".join(f"{row.exp}, {row.model}: {row.rho:.2f}" for row in means.itertuples())
    return figure, f"Heatmaps of ρ by model and group, one per experiment. {title}. Means: {texts}."


def plot_rhos(rows: pd.DataFrame, series: Sequence[str], *, name: str, title: str) -> Drawing:
    """Plot rho of analyses with its interval and placebo, by stratum and model.

    The order of `series`, the names of the models, determines their colours and shapes.
    """
    columns = {"rho": "value", "ci_low": "low", "ci_high": "high"}
    columns |= {"placebo_mean": "band_low", "placebo_q95": "band_high"}
    values = rows.assign(block=rows["stratum"], series=rows["model"].astype(str)).rename(columns=columns)
    values = sort_by(values, block=(), series=series)
    # Without a placebo, all points are filled.
    values["filled"] = ~(values["value"] <= values["band_high"])
    values["text"] = values["value"].map(format_digits)
    values["alt_text"] = values["series"] + " " + values["text"]
    texts: dict[str, Any] = {"band": "placebo: mean to 95th", "hollow": "not above placebo"}
    figure, axes, values = draw_forest_plot(
        values, title=title, label=RHO_LABEL, series=series, limits=RHO_LIMITS, **texts
    )
    draw_marks(axes, values["band_high"], values["y"])
    optional = {INTERVAL_CAPTION: "low", HOLLOW_CAPTION: "band_high"}
    caption = [POINT_CAPTION, *(text for text, column in optional.items() if values[column].notna().any())]
    alt_text = f"Dot plot of ρ with intervals and placebo. {title}. {describe_rows(values)}."
    return Drawing(name, figure, title, alt_text, " ".join(caption))


def plot_levels(rows: pd.DataFrame, series: Sequence[str], *, name: str, title: str) -> Drawing:
    """Plot levels of analyses with their intervals; arguments as in `plot_rhos`."""
    columns = {"level": "value", "level_low": "low", "level_high": "high"}
    values = rows.assign(block=rows["stratum"], series=rows["model"].astype(str)).rename(columns=columns)
    values = sort_by(values, block=(), series=series)
    values["filled"] = ~(values["level_q"] > 0.05)
    values["text"] = values["value"].map(partial(format_digits, digits=3))
    values["alt_text"] = values["series"] + " " + values["text"]
    figure, _, values = draw_forest_plot(
        values, title=title, label=LEVEL_LABEL, series=series, hollow="q > .05"
    )
    alt_text = f"Dot plot of levels of carry-over with intervals. {title}. {describe_rows(values)}."
    return Drawing(name, figure, title, alt_text, LEVEL_CAPTION)


def plot_corrected(rows: pd.DataFrame, series: Sequence[str], *, name: str, title: str) -> Drawing:
    """Plot rho, rho across halves, corrected rho and noise ceiling, by stratum and model."""
    columns = {"rho_true": "value", "rho_true_low": "low", "rho_true_high": "high"}
    columns |= {"noise_ceiling": "band_high"}
    values = rows.assign(block=rows["stratum"], series=rows["model"].astype(str)).rename(columns=columns)
    values = sort_by(values, block=(), series=series)
    values["band_low"] = values["band_high"].where(values["band_high"].isna(), 0)
    values["text"] = values["value"].map(format_digits).replace("undefined", "refused")
    values["alt_text"] = values["series"] + ": corrected " + values["text"]
    for word, column in {"ρ": "rho", "across halves": "rho_cross", "ceiling": "band_high"}.items():
        values["alt_text"] += f", {word} " + values[column].map(format_digits)
    cross: dict[str, Any] = {"linestyle": "", "color": "black", "markersize": 4.5}
    key = [
        Line2D([], [], label="ρ", marker="x", **cross),
        Line2D([], [], label="ρ across halves", marker="|", **cross),
    ]
    figure, axes, values = draw_forest_plot(
        values,
        title=title,
        label=f"corrected {RHO_LABEL}",
        series=series,
        band="noise ceiling",
        further_entries=key,
        limits=CORRECTED_LIMITS,
    )
    axes.plot(values["rho"], values["y"], marker="x", zorder=5, **cross)
    draw_marks(axes, values["rho_cross"], values["y"], color="black")
    alt_text = f"Dot plot of ρ and corrected ρ. {title}. {describe_rows(values)}."
    return Drawing(name, figure, title, alt_text, CORRECTED_CAPTION)
