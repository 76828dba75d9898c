"""A narrow figure with its title and key above: a phone can show it, and a plot may grow downwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.legend_handler import HandlerBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Transform

from src.report.drawing import plain, style

# Inches; ROW is a line of points.
WIDTH, ROW = 4.4, 0.17
LEFT, RIGHT, BELOW = 0.12, 0.46, 0.44
PLACEBO = "#c4c4c4"


def canvas(height: float, title: str, key: Sequence[Line2D | Patch]) -> tuple[Figure, Axes]:
    """A narrow figure whose vertical axis is in inches from the top, with its title and its key.

    Args:
        height: of the plot itself.
        title: of the figure.
        key: what its colours and shapes mean.
    """
    longest = max(len(str(item.get_label())) for item in key)
    columns = 2 if longest <= 24 else 1
    above = 0.34 + 0.175 * -(-len(key) // columns)
    total = above + height + BELOW
    figure = Figure(figsize=(WIDTH, total))
    figure.text(LEFT / WIDTH, 1 - 0.06 / total, plain(title, 52), fontsize=9.5, va="top")
    figure.legend(
        handles=list(key),
        loc="upper left",
        bbox_to_anchor=(0.01, 1 - 0.22 / total),
        ncols=columns,
        fontsize=8,
        frameon=False,
        labelspacing=0.35,
        columnspacing=1,
        handlelength=1.6,
        handler_map={Patch: HandlerTick()},
    )
    axes = figure.add_axes((LEFT / WIDTH, BELOW / total, 1 - (LEFT + RIGHT) / WIDTH, height / total))
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    return figure, axes


def rho_axis(axes: Axes) -> None:
    """An axis of rho as wide as rho can be."""
    axes.set_xlim(-1.02, 1.02)
    ticks = [-1, -0.5, 0, 0.5, 1]
    axes.set_xticks(ticks, ["−1", "−0.5", "0", "0.5", "1"], fontsize=8.5)
    for tick in ticks:
        axes.axvline(tick, color="#888888" if tick == 0 else "#e6e6e6", linewidth=0.7, zorder=0)
    axes.set_xlabel("Spearman's ρ", fontsize=8.5)


def at_right(axes: Axes, y: float, text: str) -> None:
    """A number in the margin."""
    axes.annotate(
        text,
        (1, y),
        xycoords=("axes fraction", "data"),
        xytext=(RIGHT * 72 - 4, 0),
        textcoords="offset points",
        fontsize=7.5,
        ha="right",
        va="center",
    )


def number_said(value: float, digits: int = 2) -> str:
    """A number of two digits, or that there is none."""
    return "undefined" if pd.isna(value) else f"{value:.{digits}f}".replace("-", "−")


def look(number: int, filled: bool) -> dict[str, Any]:
    """How the points of a series look, filled or hollow."""
    shape = style(number)
    edge = "#333333" if filled else shape["color"]
    return {
        "marker": shape["marker"],
        "markerfacecolor": shape["color"] if filled else "white",
        "markeredgecolor": edge,
        "markeredgewidth": 0.5 if filled else 1.3,
    }


class HandlerTick(HandlerBase):
    """The key's entry of a placebo: a bar that ends in a tick."""

    def create_artists(  # noqa: D102
        self,
        legend: Legend,  # noqa: ARG002
        orig_handle: Artist,  # noqa: ARG002
        xdescent: float,
        ydescent: float,
        width: float,
        height: float,
        fontsize: float,  # noqa: ARG002
        trans: Transform,
    ) -> Sequence[Artist]:
        ends, middle = [-xdescent, width - xdescent], height / 2 - ydescent
        bar = Line2D(ends, [middle] * 2, color=PLACEBO, linewidth=4, solid_capstyle="butt")
        tick = Line2D(ends[1:] * 2, [middle - 3, middle + 3], color="#666666", linewidth=1.2)
        for line in (bar, tick):
            line.set_transform(trans)
        return [bar, tick]
