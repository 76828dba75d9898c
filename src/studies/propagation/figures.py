"""Figures of runs and sweeps. No face is ever shown."""

from __future__ import annotations

import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from src.report import heatmap as report_heatmap
from src.report.drawing import plain, style
from src.report.forest_plot import canvas

# Points beyond this are drawn as a seeded sample, and the figure says so.
SHOWN = 2000
# Cells across a heatmap; further experiments go on a further line.
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
    """Intrinsic score against outcome, one point per unit and stratum, coloured by stratum.

    Args:
        targets: a job's targets.parquet.
        analyses: its analyses.csv.
        title: of the figure.
        intrinsic, outcome: names of the axes.

    Returns:
        The figure and its text alternative.
    """
    strata = list(analyses["stratum"])
    drawn, key, texts = [], [], []
    for number, stratum in enumerate(strata):
        rows = targets[targets["stratum"] == stratum].dropna(subset=["intrinsic", "extrinsic"])
        sample = rows.sample(min(len(rows), SHOWN // len(strata)), random_state=0)
        analysis = analyses[analyses["stratum"] == stratum].iloc[0]
        defined = pd.notna(analysis["rho"])
        text = f"ρ = {analysis['rho']:.2f}, n = {analysis['n']}" if defined else analysis["reason"]
        label = f"{plain(stratum, 25)}\n{plain(text, 27)}"
        label += f"\n{len(sample)} shown" if len(sample) < len(rows) else ""
        drawn.append(sample)
        key.append(Line2D([], [], linestyle="", markersize=5, label=label, **style(number)))
        texts.append(f"{stratum}: {text}")
    figure, axes = canvas(3, title, key)
    for number, sample in enumerate(drawn):
        x, y = sample["intrinsic"], sample["extrinsic"]
        axes.scatter(x, y, s=11, alpha=0.55, linewidths=0, **style(number))
    axes.set(xlabel=f"intrinsic: {intrinsic}", ylabel=f"extrinsic: {outcome}")
    axes.spines[:].set_visible(True)
    axes.grid(alpha=0.25)
    return figure, f"Scatter plot. {title}. {outcome} against {intrinsic}. {'; '.join(texts)}."


def heatmap(analyses: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Every rho of a sweep: a panel per experiment, models down, groups across.

    Returns:
        The figure and its text alternative.
    """
    named = analyses.assign(
        model=analyses["model"] + _suffix(analyses), group=analyses["group"].fillna(analyses["stratum"])
    )
    models = [*dict.fromkeys(named["model"])]
    grids = {}
    for exp, rows in named.groupby("exp", sort=False):
        grid = rows.drop_duplicates(["model", "group"], keep="last").pivot(
            index="model", columns="group", values="rho"
        )
        name = f"{str(exp).replace('_', ' ')}\n{rows['paper'].iloc[0]}"
        grids[name] = grid.reindex(index=models, columns=[*dict.fromkeys(rows["group"])])
    figure = report_heatmap.heatmap(grids, SCALE, title=title, columns=COLUMNS)
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    texts = "; ".join(f"{row.exp}, {row.model}: {row.rho:.2f}" for row in means.itertuples())
    return figure, f"Heatmaps of ρ by model and group, one per experiment. {title}. Means: {texts}."


def _suffix(analyses: pd.DataFrame) -> pd.Series:
    # What differs within the sweep besides the model tells its rows apart.
    text = pd.Series("", index=analyses.index)
    for column in ("debias", "protocol", "seed"):
        if analyses[column].nunique() > 1:
            text = text + f", {column} " + analyses[column].astype(str)
    return text
