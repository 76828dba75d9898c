"""Dot plots of rho with its interval and its placebo: narrow, so that a phone can show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from src.report.drawing import Drawing, plain, style
from src.report.forest_plot import PLACEBO, ROW, at_right, canvas, look, number_said, rho_axis

# Series in one figure; more of them get figures of their own.
SERIES = 12
# Inches: the name of a block.
HEAD = 0.24
POINT = "Each point is one analysis, the number at the right its ρ."
INTERVAL = "Its line is the 95% interval."
HOLLOW = (
    "Grey: from the mean to the 95th percentile (tick) of its own placebo. A hollow point is not above that "
    "percentile."
)


def dots(
    rows: pd.DataFrame, series: Sequence[str], *, by: tuple[str, str], name: str, title: str
) -> list[Drawing]:
    """Rho of analyses on an axis from -1 to 1, in blocks.

    Args:
        rows: of analyses.csv.
        series: names that are told apart by colour and shape, in the order that decides these.
        by: the column that makes a block, and the column that names the series.
        name: of the files.
        title: of the figure.

    Returns:
        A figure for each `SERIES` names that occur.
    """
    numbers = {one: number for number, one in enumerate(series)}
    there = [one for one in series if one in set(rows[by[1]])]
    parts = [there[start : start + SERIES] for start in range(0, len(there), SERIES)]
    found = []
    for number, part in enumerate(parts, 1):
        many = len(parts) > 1
        found.append(
            _one(
                rows[rows[by[1]].isin(part)],
                {one: numbers[one] for one in part},
                by,
                name + f"-{number}" * many,
                title + f" ({number} of {len(parts)})" * many,
            )
        )
    return found


def _one(rows: pd.DataFrame, numbers: dict[str, int], by: tuple[str, str], name: str, title: str) -> Drawing:
    blocks = [*dict.fromkeys(rows[by[0]])]
    height = HEAD * len(blocks) + ROW * len(rows) + 0.1
    figure, axes = canvas(height, title, _key(numbers, rows))
    y, said, placed = 0.0, [], []
    for block in blocks:
        own = rows[rows[by[0]] == block]
        y += HEAD
        axes.text(-1, y - 0.07, plain(block, 50), fontsize=8.5, fontweight="bold", va="center")
        axes.axhline(y - HEAD + 0.04, color="#dddddd", linewidth=0.6)
        values = []
        for one in [one for one in numbers if one in set(own[by[1]])]:
            for row in own[own[by[1]] == one].to_dict("records"):
                placed.append({**row, "y": y + ROW / 2, "number": numbers[one]})
                values.append(f"{one} {number_said(row['rho'])}")
                y += ROW
        said.append(f"{block}: {', '.join(values)}")
    _points(axes, pd.DataFrame(placed))
    rho_axis(axes)
    alternative = f"Dot plot of ρ with intervals and placebo. {title}. " + "; ".join(said) + "."
    told = [POINT]
    told += [INTERVAL] * bool(rows["ci_low"].notna().any()) + [HOLLOW] * bool(
        rows["placebo_q95"].notna().any()
    )
    return Drawing(name, figure, title, alternative, " ".join(told))


def _key(numbers: dict[str, int], rows: pd.DataFrame) -> list[Line2D | Patch]:
    key: list[Line2D | Patch] = [
        Line2D([], [], linestyle="", markersize=6, label=plain(one), **look(number, True))
        for one, number in numbers.items()
    ]
    if rows["placebo_q95"].notna().any():
        key.append(Patch(label="placebo: mean to 95th"))
    if not above(rows).all():
        key.append(
            Line2D([], [], linestyle="", marker="o", markersize=6, markerfacecolor="white",
                   markeredgecolor="#444444", label="not above placebo")
        )  # fmt: skip
    return key


def above(rows: pd.DataFrame) -> pd.Series:
    """Which analyses exceed the 95th percentile of their placebo; without a placebo, all."""
    return ~(rows["rho"] <= rows["placebo_q95"])


def _points(axes: Axes, placed: pd.DataFrame) -> None:
    # Drawn many at a time: an artist for each would take most of the report's time.
    known = placed.dropna(subset=["placebo_q95"])
    axes.hlines(known["y"], known["placebo_mean"], known["placebo_q95"], color=PLACEBO, linewidth=4, zorder=1)
    ends = known["y"] - 0.055, known["y"] + 0.055
    axes.vlines(known["placebo_q95"], *ends, color="#666666", linewidth=1.2, zorder=2)
    for row in placed.to_dict("records"):
        undefined = pd.isna(row["rho"])
        at_right(axes, row["y"], "none" if undefined else number_said(row["rho"]))
    drawn = placed.dropna(subset=["rho"])
    keys: Any
    for keys, rows in drawn.groupby(["number", above(drawn)]):
        number, filled = keys
        colour = style(number)["color"]
        axes.hlines(rows["y"], rows["ci_low"], rows["ci_high"], color=colour, linewidth=1.6, zorder=3)
        shape = look(number, filled)
        axes.plot(rows["rho"], rows["y"], linestyle="", markersize=5.5, zorder=4, **shape)
