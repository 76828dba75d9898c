"""Figure of the report: whose faces a model's poems are nearer to positive or to negative words about."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import Drawing, plain, style
from src.report.forest_plot import ROW, at_right, canvas, look, number_said

# Inches: the name of a pair of groups.
HEAD = 0.22
POOLS = ("positive", "negative")


def pairs(rows: pd.DataFrame, *, name: str, title: str) -> Drawing:
    """CLES of each pair of groups with its interval, by pool.

    Args:
        rows: of analyses.csv, one model and reading, one way with the tokens in both pools.
        name: of the files.
        title: of the figure.
    """
    key = [
        Line2D([], [], linestyle="", markersize=6, label=f"{pool} words", **look(number, True))
        for number, pool in enumerate(POOLS)
        if pool in set(rows["pool"])
    ]
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": "#444444"}
    key.append(Line2D([], [], linestyle="", marker="o", markersize=6, label="interval holds ½", **hollow))
    told = list(rows.groupby(["group_a", "group_b"], sort=False))
    figure, axes = canvas(len(told) * (HEAD + ROW * len(POOLS)) + 0.1, title, key)
    y, said = 0.0, []
    for (first, second), own in told:
        y += HEAD
        axes.text(0, y - 0.07, plain(f"{first} / {second}", 60), fontsize=8, va="center")
        for number, pool in enumerate(POOLS):
            for row in own[own["pool"] == pool].to_dict("records"):
                at = y + ROW / 2
                open_ = not (row["cles_low"] > 0.5 or row["cles_high"] < 0.5)
                axes.hlines(
                    at, row["cles_low"], row["cles_high"], color=style(number)["color"], linewidth=1.6
                )
                axes.plot(row["cles"], at, linestyle="", markersize=5.5, zorder=3, **look(number, not open_))
                at_right(axes, at, number_said(row["cles"]))
                said.append(f"{first} / {second}, {pool}: {number_said(row['cles'])}")
            y += ROW
    axes.set_xlim(-0.02, 1.02)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        axes.axvline(tick, color="#888888" if tick == 0.5 else "#e6e6e6", linewidth=0.7, zorder=0)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", "½", ".75", "1"], fontsize=8.5)
    axes.set_xlabel("CLES: share of pairs of faces whose first scores higher", fontsize=8.5)
    alternative = f"Dot plot of CLES with intervals. {title}. {'; '.join(said)}."
    return Drawing(name, figure, title, alternative)
