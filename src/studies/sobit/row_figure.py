"""A narrow figure of rows with a name at their left, in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from src.report.drawing import PALETTE, plain
from src.report.forest_plot import RIGHT, WIDTH, canvas

# Inches: room for names, the name of a block; letters of a name that have room.
NAMES, HEAD, LETTERS = 1.52, 0.25, 21
COLOUR, BAND = PALETTE[0], "#c4c4c4"
HOLLOW = Line2D(
    [], [], linestyle="", marker="o", markersize=6, markerfacecolor="white", markeredgecolor=COLOUR,
    markeredgewidth=1.3, label="q > .05",
)  # fmt: skip


def named(height: float, title: str, key: Sequence[Line2D | Patch]) -> tuple[Figure, Axes]:
    """`canvas` with room for names at the left."""
    figure, axes = canvas(height, title, key)
    place = axes.get_position()
    axes.set_position((NAMES / WIDTH, place.y0, 1 - (NAMES + RIGHT) / WIDTH, place.height))
    axes.tick_params(labelsize=8.5)
    return figure, axes


def name(axes: Axes, y: float, text: str) -> None:
    """The name of a row."""
    across = axes.get_yaxis_transform()
    axes.text(-0.03, y, plain(text, LETTERS), fontsize=8, ha="right", va="center", transform=across)


def head(axes: Axes, y: float, text: str, beside: str = "") -> None:
    """The name of a block whose rows begin at y."""
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


def points(axes: Axes, at: Sequence[tuple[float, float]], *, filled: bool) -> None:
    """Points of one look at (x, y)."""
    look: dict[str, Any] = {"color": COLOUR, "markeredgecolor": "#333333", "markeredgewidth": 0.5}
    if not filled:
        look |= {"color": "white", "markeredgecolor": COLOUR, "markeredgewidth": 1.3}
    x, y = zip(*at, strict=True) if at else ((), ())
    axes.plot(x, y, linestyle="", marker="o", markersize=5.5, zorder=4, clip_on=False, **look)
