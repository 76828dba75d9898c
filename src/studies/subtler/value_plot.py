"""Figures of what generative models chose: values with intervals around zero, a colour per series."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import forest_plot, in_order, in_words, split

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
        rows: `block` and its `note`, `name` within it, `series`, `value`, `low`, `high` (NaN: no interval),
            and `text`, its number.
        bars: whether a bar leads from zero to each point.
        axis: what the values are.
        limit: the axis goes from its opposite to it.
        name: of the files.
        title: of the figure.
        caption: how to read it.

    Returns:
        A figure for each `SERIES` series.
    """
    rows = in_order(rows, block=(), name=(), series=())
    series = [*dict.fromkeys(rows["series"])]
    words = [
        f"{row['series']} {row['name']} {row['text']} {_interval(row)}" for row in rows.to_dict("records")
    ]
    rows = rows.assign(words=words, filled=(rows["low"] > 0) | (rows["high"] < 0))
    drawn = []
    for names, file, heading in split(series, SERIES, name, title):
        own = rows[rows["series"].isin(names)]
        figure, axes, placed = forest_plot(
            # Series that share a name stand below it.
            own.assign(name=own["name"].mask(own.duplicated(["block", "name"]), "")),
            title=heading,
            label=axis,
            series=series,
            hollow="interval holds 0",
            bars=bars,
            limits=(-limit, limit),
        )
        for row in placed[placed["low"].isna()].to_dict("records"):
            # On the other side of zero it meets neither bar nor point.
            side = -1 if row["value"] > 0 else 1
            about: dict[str, Any] = {"ha": "right" if side < 0 else "left", "color": "#555555"}
            at = side * 0.06 * limit, row["y"]
            axes.text(*at, NONE, fontsize=7, style="italic", va="center", **about)
        kind = "Bar chart" if bars else "Dot plot"
        alternative = f"{kind} of {axis}, with 95% intervals. {heading}. {in_words(placed)}."
        drawn.append(Drawing(file, figure, heading, alternative, caption))
    return drawn


def limit(values: pd.DataFrame, most: float) -> float:
    """How far from zero an axis has to go, for all that will be compared on it."""
    furthest = float(np.nanmax(values.abs().to_numpy(dtype=float), initial=most / 50))
    return min(1.06 * furthest, 1.02 * most)


def _interval(row: Mapping[Hashable, Any]) -> str:
    if pd.isna(row["low"]):
        return NONE
    digits = 1 if max(abs(row["low"]), abs(row["high"])) > 1 else 2
    return f"[{row['low']:.{digits}f}, {row['high']:.{digits}f}]".replace("-", "−")
