"""Figures of runs and sweeps. No face is ever shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from src.report.drawing import plain, style

# Points beyond this are drawn as a seeded sample, and the figure says so.
SHOWN = 2000
# Cells across a heatmap; further experiments go on a further line.
COLUMNS = 24


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
    # Narrow, so that a phone can show it; the key has its own room above.
    key = 0.31 * -(-len(strata) // 2)
    height = 3.9 + key
    figure = Figure(figsize=(4.6, height))
    axes = figure.add_axes((0.16, 0.5 / height, 0.81, 3 / height))
    said = []
    for number, stratum in enumerate(strata):
        rows = targets[targets["stratum"] == stratum].dropna(subset=["intrinsic", "extrinsic"])
        drawn = rows.sample(min(len(rows), SHOWN // len(strata)), random_state=0)
        found = analyses[analyses["stratum"] == stratum].iloc[0]
        text = f"ρ = {found['rho']:.2f}, n = {found['n']}" if pd.notna(found["rho"]) else found["reason"]
        said.append(f"{stratum}: {text}")
        axes.scatter(
            drawn["intrinsic"],
            drawn["extrinsic"],
            s=11,
            alpha=0.55,
            linewidths=0,
            label=f"{plain(stratum, 25)}\n{plain(text, 27)}"
            + (f", {len(drawn)} shown" if len(drawn) < len(rows) else ""),
            **style(number),
        )
    axes.set_xlabel(f"intrinsic: {intrinsic}", fontsize=9)
    axes.set_ylabel(f"extrinsic: {outcome}", fontsize=9)
    axes.tick_params(labelsize=8.5)
    axes.grid(alpha=0.25)
    figure.text(0.03, 1 - 0.08 / height, plain(title, 50), va="top", fontsize=10.5)
    figure.legend(
        loc="upper left", bbox_to_anchor=(0.02, 1 - 0.3 / height), ncols=2, fontsize=8, frameon=False,
        markerscale=1.6, labelspacing=0.4,
    )  # fmt: skip
    return figure, f"Scatter plot. {title}. {outcome} against {intrinsic}. " + "; ".join(said) + "."


def heatmap(analyses: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Every rho of a sweep: a panel per experiment, models down, groups across.

    Returns:
        The figure and its text alternative.
    """
    named = analyses.assign(
        model=analyses["model"] + _suffix(analyses), group=analyses["group"].fillna(analyses["stratum"])
    )
    models = [*dict.fromkeys(named["model"])]
    lines = _lines(named)
    # Room for the names: about 0.075 inches a letter.
    beside, below_it = (0.075 * min(40, max(map(len, names))) for names in (models, named["group"]))
    size = beside + 1.2 + 0.45 * COLUMNS, len(lines) * (1.1 + below_it + 0.36 * len(models)) + 0.4
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(plain(title))
    for line, below in zip(lines, figure.subfigures(len(lines), 1, squeeze=False)[:, 0], strict=True):
        widths = [_width(named, exp) for exp in line]
        rest = max(0.01, COLUMNS - sum(widths))
        panels = below.subplots(1, len(line) + 1, width_ratios=[*widths, rest], squeeze=False)[0]
        panels[-1].set_visible(False)
        for exp, axes in zip(line, panels, strict=False):
            image = _panel(axes, named[named["exp"] == exp], models, exp)
            if exp != line[0]:
                axes.set_yticklabels([])
        below.colorbar(image, ax=panels, label="Spearman's ρ", pad=0.01, aspect=15)
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    said = "; ".join(f"{row.exp}, {row.model}: {row.rho:.2f}" for row in means.itertuples())
    return figure, f"Heatmaps of ρ by model and group, one per experiment. {title}. Means: {said}."


def _lines(named: pd.DataFrame) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    for exp in dict.fromkeys(named["exp"]):
        if lines[-1] and sum(_width(named, other) for other in [*lines[-1], exp]) > COLUMNS:
            lines.append([])
        lines[-1].append(exp)
    return lines


def _width(named: pd.DataFrame, exp: str) -> float:
    # A panel of one column still needs room for its title.
    return max(2.5, named["group"][named["exp"] == exp].nunique())


def _panel(axes: Axes, rows: pd.DataFrame, models: list[str], exp: str) -> AxesImage:
    groups = [*dict.fromkeys(rows["group"])]
    values = dict(zip(zip(rows["model"], rows["group"], strict=True), rows["rho"], strict=True))
    grid = np.array([[values.get((model, group), np.nan) for group in groups] for model in models])
    image = axes.imshow(grid, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
    axes.set_facecolor("#dddddd")
    axes.set_title(f"{exp.replace('_', ' ')}\n{rows['paper'].iloc[0]}", fontsize=9)
    axes.set_yticks(range(len(models)), [plain(model) for model in models], fontsize=9)
    axes.set_xticks(range(len(groups)), [plain(group) for group in groups], rotation=90, fontsize=9)
    for (y, x), value in np.ndenumerate(grid):
        shown = "–" if np.isnan(value) else f"{value:.2f}".replace("0.", ".", 1)
        colour = "white" if abs(value) > 0.75 else "black"
        axes.text(x, y, shown, ha="center", va="center", fontsize=9, color=colour)
    return image


def _suffix(analyses: pd.DataFrame) -> pd.Series:
    # What differs within the sweep besides the model tells its rows apart.
    text = pd.Series("", index=analyses.index)
    for column in ("debias", "protocol", "seed"):
        if analyses[column].nunique() > 1:
            text = text + f", {column} " + analyses[column].astype(str)
    return text
