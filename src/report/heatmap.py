"""Draw a heatmap in panels on one scale, several panels side by side in a line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from src.report.drawing import clean

# Minimum width of a panel, in columns, so that its title fits.
MIN_PANEL_WIDTH = 2.5


@dataclass(frozen=True)
class Scale:
    """Colours of a heatmap, format of its numbers, and its colour bar."""

    colours: str  # name of a colour map
    norm: Normalize  # maps values to colours, with the ends of the scale
    dark: Callable[[float], bool]  # value -> whether its colour is so dark that it needs white letters
    digits: int = 2  # decimal digits of the numbers in the cells
    # Options of `Figure.colorbar`. All lines of panels share a bar at the bottom; otherwise each line has a
    # bar.
    bar: Mapping[str, Any] = field(default_factory=dict)


def draw_heatmap(grids: Mapping[str, pd.DataFrame], scale: Scale, *, title: str, columns: int) -> Figure:
    """Draw panels (title -> values, all with the same rows): each value is a coloured cell with its number.

    `columns` is the maximum number of cells side by side; further panels continue on the next line.
    """
    lines = _split_into_lines(grids, columns)
    rows = [str(name) for name in next(iter(grids.values())).index]
    names = [str(name) for grid in grids.values() for name in grid]
    # Space for the names, in inches: about 0.075 per letter.
    left, below = (0.075 * min(40, max(map(len, texts))) for texts in (rows, names))
    size = left + 1.2 + 0.45 * columns, len(lines) * (1.1 + below + 0.36 * len(rows)) + 0.4
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(clean(title, 60))
    for line, subfigure in zip(lines, figure.subfigures(len(lines), 1, squeeze=False)[:, 0], strict=True):
        widths = [_width(grids[name]) for name in line]
        rest = max(0.01, columns - sum(widths))
        panels = subfigure.subplots(1, len(line) + 1, width_ratios=[*widths, rest], squeeze=False)[0]
        panels[-1].set_visible(False)
        for name, axes in zip(line, panels, strict=False):
            _draw_panel(axes, name, grids[name], scale)
            if name != line[0]:
                axes.set_yticklabels([])
        if line is lines[-1] or scale.bar.get("location") != "bottom":
            subfigure.colorbar(ScalarMappable(scale.norm, scale.colours), ax=panels, **scale.bar)
    return figure


def _split_into_lines(grids: Mapping[str, pd.DataFrame], columns: int) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    for name in grids:
        if lines[-1] and sum(_width(grids[other]) for other in [*lines[-1], name]) > columns:
            lines.append([])
        lines[-1].append(name)
    return lines


def _width(grid: pd.DataFrame) -> float:
    return max(MIN_PANEL_WIDTH, grid.shape[1])


def _draw_panel(axes: Axes, title: str, grid: pd.DataFrame, scale: Scale) -> None:
    axes.imshow(grid.to_numpy(dtype=float), cmap=scale.colours, norm=scale.norm, aspect="auto")
    axes.set_facecolor("#dddddd")
    max_letters = max(24, 6 * grid.shape[1])
    axes.set_title("\n".join(clean(line, max_letters) for line in title.split("\n")), fontsize=9)
    axes.set_yticks(range(len(grid)), [clean(str(name)) for name in grid.index], fontsize=9)
    names = [clean(str(name)) for name in grid]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=9)
    for (y, x), value in np.ndenumerate(grid.to_numpy(dtype=float)):
        text = "–" if np.isnan(value) else f"{value:.{scale.digits}f}".replace("0.", ".", 1)
        color = "white" if not np.isnan(value) and scale.dark(value) else "black"
        axes.text(x, y, text, ha="center", va="center", fontsize=9 if scale.digits < 3 else 8, color=color)
