"""Models by competence, emotions and IAT at once (Capitani et al. 2024, figure 3)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import Drawing, brief, plain, style
from src.report.forest_plot import canvas, key_of
from src.studies.implicit.model_ranking import complete, ranking

# More models are told apart by the tables only.
NUMBERED = 20
# Inches of the plot, and points of the widest bubble.
HEIGHT, WIDEST = 3.6, 34
LETTERS = 20
AXES, MEASURE = ("competence", "emotions"), "mean |CLES − ½|"
TITLE = "Implicit bias of models"


def bubbles(models: pd.DataFrame) -> Drawing | None:
    """Competence across, emotions up, the area of a bubble its IAT, colour and shape its pretraining set.

    Args:
        models: `model`, `pretraining` and `zoo.MEASURES`; rows that lack one are left out.

    Returns:
        The figure; None where no model has all three.
    """
    rows = ranking(models[complete(models)])
    if rows.empty:
        return None
    sets = {name: style(number) for number, name in enumerate(dict.fromkeys(rows["pretraining"]))}
    largest, numbered = float(rows["iat"].max()), len(rows) <= NUMBERED
    figure, axes = canvas(HEIGHT, TITLE, _key(rows, [*sets], numbered))
    for number, row in enumerate(rows.to_dict("records"), 1):
        x, y, look = row["competence"], row["emotions"], sets[row["pretraining"]]
        # A ring's area is the measure; the shape in its middle, all of one size, is the set.
        size = WIDEST * np.sqrt(row["iat"] / largest) if largest > 0 else 0
        axes.plot([x], [y], "o", markersize=size, color=look["color"], alpha=0.25, markeredgewidth=0)
        axes.plot([x], [y], markersize=5, markeredgecolor="#333333", markeredgewidth=0.4, **look)
        if numbered:
            axes.annotate(f"{number}", (x, y), (4, 3), textcoords="offset points", fontsize=8.5)
    across, up = (float(rows[name].max()) * 1.18 or 0.5 for name in AXES)
    axes.set(xlim=(0, across), ylim=(0, up))
    axes.set(xlabel=f"{AXES[0]}: {MEASURE}", ylabel=f"{AXES[1]}: {MEASURE}")
    axes.spines["left"].set_visible(True)
    axes.grid(alpha=0.25)
    said = "; ".join(
        f"{row['model']} ({row['pretraining']}): {_said(row)}" for row in rows.to_dict("records")
    )
    alternative = f"Bubble chart. {TITLE}: competence, emotions (mean |CLES − ½|) and IAT. {said}."
    return Drawing("bubbles", figure, TITLE, alternative, _caption(rows, len(models) - len(rows), numbered))


def _key(rows: pd.DataFrame, sets: Sequence[str], numbered: bool) -> list[Line2D]:
    area = f"area: IAT, 0 to {rows['iat'].max():.1f}"
    ring: dict[str, Any] = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": "#444444"}
    key = [*key_of(sets), Line2D([], [], linestyle="", markersize=8, label=area, **ring)]
    names = [f"{number} {brief(name, LETTERS)}" for number, name in enumerate(rows["model"].map(str), 1)]
    return key + [Line2D([], [], linestyle="", label=plain(name)) for name in names if numbered]


def _said(row: Mapping[Hashable, Any]) -> str:
    return f"{row['competence']:.3f}, {row['emotions']:.3f}, {row['iat']:.1f}"


def _caption(rows: pd.DataFrame, left: int, numbered: bool) -> str:
    said = (
        "Both axes begin at 0, where no two groups differ; each measure is a mean over pairs of groups. The "
        f"area of a bubble is the model's IAT, {rows['iat'].min():.1f} to {rows['iat'].max():.1f}."
    )
    if numbered:
        said += " Numbers are the order of the ranking."
    if left:
        said += f" {left} of {len(rows) + left} models lack a measure and are not drawn."
    return said
