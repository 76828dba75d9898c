"""Figures of what generative models chose: values with intervals around zero, a colour per series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from src.report.drawing import Drawing, plain, style
from src.report.forest_plot import ROW, WIDTH, canvas, look

# Inches: room for names and for numbers, the name of a block, the gap between groups.
NAMES, NUMBERS, HEAD, APART = 0.94, 1.1, 0.25, 0.06
# Series in one figure; more of them get figures of their own.
SERIES = 6
NONE = "no interval"
HOLLOW = (
    f"A hollow point: its 95% interval holds 0, or there is none, which is written (“{NONE}”: fewer than two "
    "sentence templates, none were drawn, or too many answers match no option: then there is no point)."
)


def figures(
    rows: pd.DataFrame, *, bars: bool, axis: str, limit: float, name: str, title: str, caption: str
) -> list[Drawing]:
    """Values with their intervals on an axis around zero.

    Args:
        rows: `block` and what stands `beside` its name, `group` within it, `series`, `value`, `low`, `high`
            (NaN: no interval), and `text`, its number.
        bars: whether a bar leads from zero to each point.
        axis: what the values are.
        limit: the axis goes from its opposite to it.
        name: of the files.
        title: of the figure.
        caption: how to read it.

    Returns:
        A figure for each `SERIES` series.
    """
    series = [str(one) for one in dict.fromkeys(rows["series"])]
    parts = [series[start : start + SERIES] for start in range(0, len(series), SERIES)]
    found = []
    for number, part in enumerate(parts, 1):
        many = len(parts) > 1
        own = rows[rows["series"].isin(part)]
        which = title + f" ({number} of {len(parts)})" * many
        figure, axes = _figure(own, {one: series.index(one) for one in part}, which, bars, limit)
        axes.set_xlabel(axis, fontsize=8.5)
        kind = "Bar chart" if bars else "Dot plot"
        alternative = f"{kind} of {axis}, with 95% intervals. {which}. {_said(own)}."
        found.append(Drawing(name + f"-{number}" * many, figure, which, alternative, caption))
    return found


def limit(values: pd.DataFrame, most: float) -> float:
    """How far from zero an axis has to go, for all that will be compared on it."""
    furthest = float(np.nanmax(values.abs().to_numpy(dtype=float), initial=most / 50))
    return min(1.06 * furthest, 1.02 * most)


def _said(rows: pd.DataFrame) -> str:
    blocks = []
    for (block, beside), own in rows.groupby(["block", "beside"], sort=False):
        parts = [
            f"{row['series']} {row['group']} {row['text']} {_interval(row)}" for row in own.to_dict("records")
        ]
        blocks.append(f"{block} ({beside}): " + ", ".join(parts))
    return "; ".join(blocks)


def _interval(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["low"]):
        return NONE
    digits = 1 if max(abs(row["low"]), abs(row["high"])) > 1 else 2
    return f"[{row['low']:.{digits}f}, {row['high']:.{digits}f}]".replace("-", "−")


def _figure(
    rows: pd.DataFrame, numbers: Mapping[str, int], title: str, bars: bool, end: float
) -> tuple[Figure, Axes]:
    groups = rows[["block", "group"]].drop_duplicates()
    height = HEAD * groups["block"].nunique() + ROW * len(rows) + APART * len(groups) + 0.05
    figure, axes = canvas(height, title, _key(rows, numbers))
    place = axes.get_position()
    axes.set_position((NAMES / WIDTH, place.y0, 1 - (NAMES + NUMBERS) / WIDTH, place.height))
    y, placed = 0.0, []
    for block, of_block in rows.groupby("block", sort=False):
        y += HEAD
        _head(axes, y, str(block), str(of_block["beside"].iloc[0]))
        for group, own in of_block.groupby("group", sort=False):
            _beside(axes, -0.03, y + ROW / 2, str(group), "right", 8)
            for one in [one for one in numbers if one in set(own["series"])]:
                for row in own[own["series"] == one].to_dict("records"):
                    placed.append({**row, "y": y + ROW / 2, "number": numbers[one]})
                    y += ROW
            y += APART
    axes.set_xlim(-end, end)
    axes.tick_params(labelsize=8.5)
    _draw(axes, pd.DataFrame(placed), bars, end)
    return figure, axes


def _key(rows: pd.DataFrame, numbers: Mapping[str, int]) -> list[Line2D]:
    key = [
        Line2D([], [], linestyle="", markersize=6, label=plain(one), **look(number, True))
        for one, number in numbers.items()
    ]
    if _open(rows).any():
        key.append(
            Line2D([], [], linestyle="", marker="o", markersize=6, markerfacecolor="white",
                   markeredgecolor="#444444", label="interval holds 0")
        )  # fmt: skip
    return key


def _open(rows: pd.DataFrame) -> pd.Series:
    return ~((rows["low"] > 0) | (rows["high"] < 0))


def _head(axes: Axes, y: float, text: str, beside: str) -> None:
    across = axes.get_yaxis_transform()
    left, right = ((at - NAMES) / (WIDTH - NAMES - NUMBERS) for at in (0.12, WIDTH - 0.06))
    line: dict[str, Any] = {"color": "#dddddd", "linewidth": 0.6, "transform": across, "clip_on": False}
    axes.plot([left, right], [y - HEAD + 0.05] * 2, **line)
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    about: dict[str, Any] = {"va": "center", "transform": across, "bbox": behind}
    axes.text(left, y - 0.08, plain(text, 28), fontsize=8.5, fontweight="bold", **about)
    axes.text(right, y - 0.08, plain(beside, 44), fontsize=7.5, ha="right", **about)


def _beside(axes: Axes, x: float, y: float, text: str, side: str, size: float) -> None:
    across = axes.get_yaxis_transform()
    axes.text(x, y, plain(text, 24), fontsize=size, ha=side, va="center", transform=across)


def _draw(axes: Axes, rows: pd.DataFrame, bars: bool, end: float) -> None:
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.axvline(0, color="#666666", linewidth=0.9, zorder=2)
    keys: Any
    for keys, own in rows.groupby(["number", _open(rows)]):
        number, hollow = keys
        colour = style(number)["color"]
        if bars:
            axes.barh(own["y"], own["value"], height=0.66 * ROW, color=colour, alpha=0.35, zorder=1)
        axes.hlines(own["y"], own["low"], own["high"], color=colour, linewidth=1.6, zorder=3)
        axes.plot(own["value"], own["y"], linestyle="", markersize=5, zorder=4, **look(number, not hollow))
    for row in rows.to_dict("records"):
        _beside(axes, 1.04, row["y"], row["text"], "left", 7.5)
        if pd.isna(row["low"]):
            # On the other side of zero it meets neither bar nor point.
            side = -1 if row["value"] > 0 else 1
            about: dict[str, Any] = {
                "ha": "right" if side < 0 else "left",
                "va": "center",
                "color": "#555555",
            }
            axes.text(side * 0.06 * end, row["y"], NONE, fontsize=7, style="italic", **about)
