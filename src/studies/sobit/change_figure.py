"""The change of each word's bias on one axis against that on another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from src.report.drawing import PALETTE, Drawing, plain
from src.report.forest_plot import WIDTH, canvas
from src.studies.sobit.debiasing_changes import (
    ALL_FELL,
    ALL_ROSE,
    MIXED,
    NOTHING,
    SOME_FELL,
    SOME_ROSE,
    UNKNOWN,
)
from src.studies.sobit.word_rows import NAMED, axes

# Inches of the plot; words that are labelled at most; inches a letter and a line of a label.
HEIGHT, LABELLED, LETTER, LINE, POINT = 3.9, 30, 0.062, 0.125, 0.03
LOOKS: dict[str, dict[str, Any]] = {
    MIXED: {"color": PALETTE[1], "marker": "D", "markersize": 5},
    ALL_FELL: {"color": PALETTE[0], "marker": "o", "markersize": 4},
    SOME_FELL: {"color": PALETTE[5], "marker": "v", "markersize": 4},
    SOME_ROSE: {"color": PALETTE[3], "marker": "^", "markersize": 4},
    ALL_ROSE: {"color": PALETTE[7], "marker": "s", "markersize": 4},
    NOTHING: {"color": "#9a9a9a", "marker": ".", "markersize": 5},
    UNKNOWN: {"color": "#9a9a9a", "marker": "x", "markersize": 4},
}
CAPTION = (
    "Each point is a word: the change of its largest |C| on the one axis, and on the other. Left of and "
    "below the lines at zero: lower with debiasing. Colours and shapes say what became of it on all axes, by "
    "95% intervals (thin lines, of the words that fell on one axis and rose on another). Some have no room "
    "for their names: the table has all."
)


def changed(found: pd.DataFrame, told: pd.DataFrame, name: str) -> Drawing | None:
    """A point per word; None where there are fewer than two axes.

    Args:
        found: `changes.changes` of one pair of jobs.
        told: `changes.verdicts` of the same.
        name: of the files.
    """
    both = axes(found)[:2]
    if len(both) < 2:
        return None
    columns = ["difference", "ci_low", "ci_high"]
    wide = found[found["axis"].isin(both)].pivot(index="caption", columns="axis", values=columns)
    points = told.set_index("caption").join(wide[[(one, axis) for one in columns for axis in both]].set_axis(
        [f"{one}_{at}" for one in columns for at in "xy"], axis=1
    )).dropna(subset=["difference_x", "difference_y"])  # fmt: skip
    verdicts = [one for one in LOOKS if one in set(points["verdict"])]
    title = f"{found['model'].iloc[0]}, {found['debias'].iloc[0]}"
    figure, plot = canvas(HEIGHT, title, [_entry(points, one) for one in verdicts])
    for one in reversed(verdicts):
        own = points[points["verdict"] == one]
        plot.plot(
            own["difference_x"], own["difference_y"], linestyle="", zorder=3 + (one == MIXED), **LOOKS[one]
        )
    mixed = points[points["verdict"] == MIXED]
    thin: dict[str, Any] = {"color": PALETTE[1], "linewidth": 0.7, "alpha": 0.55, "zorder": 2}
    plot.hlines(mixed["difference_y"], mixed["ci_low_x"], mixed["ci_high_x"], **thin)
    plot.vlines(mixed["difference_x"], mixed["ci_low_y"], mixed["ci_high_y"], **thin)
    _axis(plot, both)
    figure.draw_without_rendering()  # lays it out
    _label(plot, mixed)
    values = (
        f"{row['word']} {_signed(row['difference_x'])}, {_signed(row['difference_y'])}"
        for row in mixed.to_dict("records")
    )
    numbers = ", ".join(f"{one} {(points['verdict'] == one).sum()}" for one in verdicts)
    alternative = (
        f"Scatter plot of the change of the largest |C| on {_named(both[0])} and on {_named(both[1])}. "
        f"{title}. Words: {numbers}. Of those that fell on one axis and rose on another: "
        f"{'; '.join(values) or 'none'}."
    )
    return Drawing(name, figure, title, alternative, CAPTION)


def _named(axis: str) -> str:
    return NAMED.get(axis, axis)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _entry(points: pd.DataFrame, verdict: str) -> Line2D:
    label = f"{verdict}: {(points['verdict'] == verdict).sum()}"
    return Line2D([], [], linestyle="", label=label, **LOOKS[verdict])


def _axis(plot: Axes, both: Sequence[str]) -> None:
    plot.margins(0.06)
    plot.yaxis.set_major_locator(MaxNLocator(6))
    plot.spines["left"].set_visible(True)
    plot.axvline(0, color="#666666", linewidth=0.8, zorder=1)
    plot.axhline(0, color="#666666", linewidth=0.8, zorder=1)
    plot.tick_params(labelsize=8.5)
    plot.set_xlabel(f"change of largest |C| on {_named(both[0])}", fontsize=8.5)
    plot.set_ylabel(f"change of largest |C| on {_named(both[1])}", fontsize=8.5, labelpad=2)


def _label(plot: Axes, mixed: pd.DataFrame) -> None:
    """Names beside points, the farthest first, where they meet neither a point nor another name."""
    far = (mixed["difference_x"].abs() + mixed["difference_y"].abs()).sort_values(ascending=False).index
    box = plot.get_position()
    wide, high = box.width * WIDTH, box.height * plot.get_figure().get_size_inches()[1]  # type: ignore[union-attr]
    (x0, x1), (y0, y1) = plot.get_xlim(), plot.get_ylim()
    across = (mixed["difference_x"] - x0) / (x1 - x0) * wide
    up = (mixed["difference_y"] - y0) / (y1 - y0) * high
    # Points are in the way of names too.
    taken = [(x - POINT, y - POINT, x + POINT, y + POINT) for x, y in zip(across, up, strict=True)]
    for caption in far[:LABELLED]:
        x, y, name = across[caption], up[caption], plain(str(mixed["word"][caption]), 22)
        length = LETTER * len(name)
        for side, rise in ((1, 0.0), (-1, 0.0), (1, LINE), (-1, LINE), (1, -LINE), (-1, -LINE)):
            left = x + 0.07 if side > 0 else x - 0.07 - length
            spot = (left, y + rise - LINE / 2, left + length, y + rise + LINE / 2)
            if left >= 0 and spot[2] <= wide and not any(_meet(spot, other) for other in taken):
                taken.append(spot)
                place = (left / wide, (y + rise) / high)
                plot.text(*place, name, fontsize=7.5, va="center", transform=plot.transAxes, zorder=5)
                break


def _meet(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
