"""A narrow figure of rows with a name at their left, in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from src.report.drawing import PALETTE, plain
from src.report.forest_plot import RIGHT, ROW, WIDTH, at_right, canvas, look

# Inches: room for names, the name of a block; letters of a name that have room.
NAMES, HEAD, LETTERS = 1.52, 0.25, 21
COLOUR, BAND = PALETTE[0], "#c4c4c4"
HOLLOW = Line2D([], [], linestyle="", markersize=6, label="q > .05", **look(0, filled=False))


class Block(NamedTuple):
    """Rows below a name.

    Attributes:
        name: of the block.
        beside: what stands at the right of the name.
        rows: name and value of each row.
    """

    name: str
    beside: str
    rows: Sequence[tuple[str, str]]


def in_blocks(
    title: str, key: Sequence[Line2D | Patch], blocks: Sequence[Block]
) -> tuple[Figure, Axes, list[float]]:
    """Draw names and values of rows in blocks; return also the height of each row."""
    figure, axes = canvas(sum(HEAD + ROW * len(block.rows) for block in blocks) + 0.1, title, key)
    place = axes.get_position()
    axes.set_position((NAMES / WIDTH, place.y0, 1 - (NAMES + RIGHT) / WIDTH, place.height))
    axes.tick_params(labelsize=8.5)
    across, heights, y = axes.get_yaxis_transform(), [], 0.0
    for block in blocks:
        y += HEAD
        _head(axes, y, block.name, block.beside)
        for name, value in block.rows:
            heights.append(y + ROW / 2)
            label = plain(name, LETTERS)
            axes.text(-0.03, heights[-1], label, fontsize=8, ha="right", va="center", transform=across)
            at_right(axes, heights[-1], value)
            y += ROW
    return figure, axes, heights


def _head(axes: Axes, y: float, text: str, beside: str) -> None:
    left = (0.12 - NAMES) / (WIDTH - NAMES - RIGHT)
    across = axes.get_yaxis_transform()
    axes.plot(
        [left, 1], [y - HEAD + 0.05] * 2, color="#dddddd", linewidth=0.6, transform=across, clip_on=False
    )
    axes.text(left, y - 0.08, plain(text, 28), fontsize=8.5, fontweight="bold", va="center", transform=across)
    # Above the line at zero.
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    about: dict[str, Any] = {"ha": "right", "va": "center", "transform": across, "bbox": behind}
    axes.text(1, y - 0.08, plain(beside, 44), fontsize=7.5, **about)


def point(label: str) -> Line2D:
    """Return the key's entry of filled points."""
    return Line2D([], [], linestyle="", marker="o", markersize=6, color=COLOUR, label=label)


def points(axes: Axes, x: pd.Series, y: Sequence[float] | pd.Series, *, filled: bool) -> None:
    """Points of one look at (x, y)."""
    axes.plot(x, y, linestyle="", markersize=5.5, zorder=4, clip_on=False, **look(0, filled))
