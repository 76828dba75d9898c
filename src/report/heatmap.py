"""Heatmap in panels that share a scale, as many panels on a line as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from src.report.drawing import plain

# Columns of cells that the title of a panel needs.
NARROWEST = 2.5


@dataclass(frozen=True)
class Scale:
    """Colours of a heatmap and what they mean.

    Attributes:
        colours: name of a colour map.
        norm: its ends.
        dark: whether the colour of a value asks for white letters.
        digits: after the point of the numbers in the cells.
        bar: about the colour bar, see `Figure.colorbar`; at the bottom there is one, else one for each line.
    """

    colours: str
    norm: Normalize
    dark: Callable[[float], bool]
    digits: int = 2
    bar: Mapping[str, Any] = field(default_factory=dict)


def heatmap(grids: Mapping[str, pd.DataFrame], scale: Scale, *, title: str, columns: int) -> Figure:
    """Draw every value as a coloured cell with its number.

    Args:
        grids: title of each panel -> its values; all have the same rows.
        scale: colours and their meaning.
        title: of the figure.
        columns: cells on a line; further panels go on a further line.
    """
    lines = _lines(grids, columns)
    rows = [str(name) for name in next(iter(grids.values())).index]
    names = [str(name) for grid in grids.values() for name in grid]
    # Room for the names: about 0.075 inches a letter.
    left, below = (0.075 * min(40, max(map(len, texts))) for texts in (rows, names))
    size = left + 1.2 + 0.45 * columns, len(lines) * (1.1 + below + 0.36 * len(rows)) + 0.4
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(plain(title, 60))
    for line, part in zip(lines, figure.subfigures(len(lines), 1, squeeze=False)[:, 0], strict=True):
        widths = [_width(grids[name]) for name in line]
        rest = max(0.01, columns - sum(widths))
        panels = part.subplots(1, len(line) + 1, width_ratios=[*widths, rest], squeeze=False)[0]
        panels[-1].set_visible(False)
        for name, axes in zip(line, panels, strict=False):
            _panel(axes, name, grids[name], scale)
            if name != line[0]:
                axes.set_yticklabels([])
        if line is lines[-1] or scale.bar.get("location") != "bottom":
            part.colorbar(ScalarMappable(scale.norm, scale.colours), ax=panels, **scale.bar)
    return figure


def _lines(grids: Mapping[str, pd.DataFrame], columns: int) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    for name in grids:
        if lines[-1] and sum(_width(grids[other]) for other in [*lines[-1], name]) > columns:
            lines.append([])
        lines[-1].append(name)
    return lines


def _width(grid: pd.DataFrame) -> float:
    return max(NARROWEST, grid.shape[1])


def _panel(axes: Axes, title: str, grid: pd.DataFrame, scale: Scale) -> None:
    axes.imshow(grid.to_numpy(dtype=float), cmap=scale.colours, norm=scale.norm, aspect="auto")
    axes.set_facecolor("#dddddd")
    room = max(24, 6 * grid.shape[1])
    axes.set_title("\n".join(plain(line, room) for line in title.split("\n")), fontsize=9)
    axes.set_yticks(range(len(grid)), [plain(str(name)) for name in grid.index], fontsize=9)
    names = [plain(str(name)) for name in grid]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=9)
    for (y, x), value in np.ndenumerate(grid.to_numpy(dtype=float)):
        shown = "–" if np.isnan(value) else f"{value:.{scale.digits}f}".replace("0.", ".", 1)
        color = "white" if not np.isnan(value) and scale.dark(value) else "black"
        axes.text(x, y, shown, ha="center", va="center", fontsize=9 if scale.digits < 3 else 8, color=color)
