"""Figures of runs and sweeps. No face is ever shown."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

matplotlib.use("Agg")

# Okabe & Ito's palette, told apart by readers of any colour vision; shapes besides.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
# Points beyond this are drawn as a seeded sample, and the figure says so.
SHOWN = 2000


def scatter(targets: pd.DataFrame, analyses: pd.DataFrame, *, title: str, outcome: str) -> tuple[Figure, str]:
    """Intrinsic score against outcome, one point per unit and stratum, coloured by stratum.

    Args:
        targets: a job's targets.parquet.
        analyses: its analyses.csv.
        title: of the figure.
        outcome: name of the outcome's axis.

    Returns:
        The figure and its text alternative.
    """
    strata = list(analyses["stratum"])
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
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
            color=PALETTE[number % len(PALETTE)],
            marker=MARKERS[number % len(MARKERS)],
            label=f"{stratum}\n{text}" + (f", {len(drawn)} shown" if len(drawn) < len(rows) else ""),
        )
    axes.set(title=title, xlabel="intrinsic: SC-EAT effect size", ylabel=f"extrinsic: {outcome}")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False, markerscale=1.6)
    return figure, f"Scatter plot. {title}. {outcome} against SC-EAT effect size. " + "; ".join(said) + "."


def heatmap(analyses: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Every rho of a sweep: models down, experiments and groups across.

    Returns:
        The figure and its text alternative.
    """
    rows = [*dict.fromkeys(analyses["model"] + _suffix(analyses))]
    columns = [*dict.fromkeys(zip(analyses["exp"], analyses["group"].fillna(""), strict=True))]
    columns.sort(key=lambda column: list(dict.fromkeys(analyses["exp"])).index(column[0]))
    keys = zip(
        analyses["model"] + _suffix(analyses), analyses["exp"], analyses["group"].fillna(""), strict=True
    )
    values = dict(zip(keys, analyses["rho"], strict=True))
    grid = np.array([[values.get((row, *column), np.nan) for column in columns] for row in rows])
    figure = Figure(
        figsize=(max(6.0, 2.2 + 0.42 * len(columns)), 2.6 + 0.42 * len(rows)), layout="constrained"
    )
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
    axes.set_facecolor("#dddddd")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(
        range(len(columns)), [group or "all groups" for _, group in columns], rotation=90, fontsize=8
    )
    for (y, x), value in np.ndenumerate(grid):
        shown = "–" if np.isnan(value) else f"{value:.2f}".replace("0.", ".", 1)
        colour = "white" if abs(value) > 0.6 else "black"
        axes.text(x, y, shown, ha="center", va="center", fontsize=7, color=colour)
    _name_experiments(axes, [exp for exp, _ in columns])
    figure.colorbar(image, ax=axes, label="Spearman's ρ", pad=0.01)
    figure.suptitle(title)
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    said = "; ".join(f"{row.exp}, {row.model}: {row.rho:.2f}" for row in means.itertuples())
    return figure, f"Heatmap of ρ by model, experiment and group. {title}. Means: {said}."


def save(figure: Figure, alternative: str, path: Path) -> None:
    """Write a PNG that carries its text alternative as `Description`."""
    figure.savefig(path, dpi=150, metadata={"Description": alternative})


def _suffix(analyses: pd.DataFrame) -> pd.Series:
    # What differs within the sweep besides the model tells its rows apart.
    text = pd.Series("", index=analyses.index)
    for column in ("debias", "protocol", "seed"):
        if analyses[column].nunique() > 1:
            text = text + f", {column} " + analyses[column].astype(str)
    return text


def _name_experiments(axes: Axes, experiments: list[str]) -> None:
    names = [*dict.fromkeys(experiments)]
    for name in names:
        first = experiments.index(name)
        last = len(experiments) - 1 - experiments[::-1].index(name)
        if first:
            axes.axvline(first - 0.5, color="black", linewidth=1)
        label = name.replace("_to_", "\nto ") if last > first else name.replace("_to_", " to ")
        axes.text(
            (first + last) / 2,
            -0.62,
            label,
            ha="center" if last > first else "left",
            va="bottom",
            fontsize=8,
            rotation=0 if last > first else 60,
        )
