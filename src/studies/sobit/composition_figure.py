"""Whose faces a word retrieves, against whose faces there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from src.report.drawing import Drawing
from src.report.forest_plot import number_said
from src.studies.sobit import row_figure
from src.studies.sobit.row_figure import Block, in_blocks
from src.studies.sobit.word_rows import NAMED, SMALL

# Words in a figure: of few groups, and of many.
WORDS, FEW, ROOMY = 6, 3, 8
CAPTION = (
    "The words with the largest MaxSkew, chosen among all: the largest of many lean outwards, and would do "
    "less in other faces. A bar is a group's share of the nearest faces, its line the 95% interval, the tick "
    "the group's share of all faces (base), and the number at the right their ratio. Grey: within it lie 95 "
    "of 100 permutations of the faces' labels, allowing for the number of groups. A pale bar has q > .05."
)


def composition(rows: pd.DataFrame, axis: str, number: int) -> Drawing | None:
    """Bars of the shares among the nearest faces; None where nothing was retrieved.

    Args:
        rows: `words.completed` of one model and reading.
        axis: which.
        number: of the model, for the file's name.
    """
    known = rows[rows["axis"] == axis].dropna(subset=["share_topk"]).drop_duplicates(["caption", "group"])
    if known.empty:
        return None
    words = known.drop_duplicates("caption").sort_values("maxskew", ascending=False, kind="stable")
    chosen = words["caption"].head(WORDS if known["group"].nunique() <= ROOMY else FEW)
    title = f"{known['model'].iloc[0]}: {NAMED.get(axis, axis)}, nearest faces"
    shown = [known[known["caption"] == caption] for caption in chosen]
    blocks, said = [], []
    for own in shown:
        first = own.iloc[0]
        skew = f"MaxSkew {number_said(first['maxskew'])}" + (
            f" (null 95th {number_said(first['maxskew_q95'])})" if pd.notna(first["maxskew_q95"]) else ""
        )
        records = own.to_dict("records")
        ratios = [(str(row["group"]), f"× {number_said(row['ratio'], 1)}") for row in records]
        blocks.append(Block(str(first["word"]), skew, ratios))
        values = (f"{row['group']} {row['share_topk']:.2f} of {row['base_share']:.2f}" for row in records)
        said.append(f"{first['word']} ({skew}): {', '.join(values)}")
    every = pd.concat(shown)
    figure, axes, heights = in_blocks(title, _key(every), blocks)
    _draw(axes, every.assign(y=heights))
    alternative = (
        f"Bars of each group's share of the nearest faces, and its share of all. {title}. {'; '.join(said)}."
    )
    return Drawing(f"sobit-nearest-{number}-{axis}", figure, title, alternative, CAPTION)


def _key(shown: pd.DataFrame) -> list[Line2D | Patch]:
    base: dict[str, Any] = {"linestyle": "", "marker": "|", "markersize": 9, "markeredgewidth": 1.6}
    bar: dict[str, Any] = {"linestyle": "", "marker": "s", "markersize": 7, "markeredgewidth": 0}
    key: list[Line2D | Patch] = [
        Line2D([], [], label="share, 95% interval", color=row_figure.COLOUR, **bar),
        Line2D([], [], label="base", color="black", **base),
    ]
    if shown["null_q95"].notna().any():
        key.append(Patch(label="permuted labels: 95%"))
    if not (shown["q"] <= SMALL).all():
        key.append(Line2D([], [], label="q > .05", color="#9cc4de", **bar))
    return key


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    y, base, wide = rows["y"], rows["base_share"], rows["null_q95"]
    axes.barh(y, 2 * wide, left=base - wide, height=0.15, color=row_figure.BAND, zorder=1)
    colours = np.where(rows["q"] <= SMALL, row_figure.COLOUR, "#9cc4de")
    axes.barh(y, rows["share_topk"], height=0.085, color=colours, zorder=2)
    axes.hlines(y, rows["share_low"], rows["share_high"], color="#333333", linewidth=1, zorder=3)
    axes.vlines(base, y - 0.07, y + 0.07, color="black", linewidth=1.6, zorder=4)
    ends = pd.concat([rows["share_topk"], rows["share_high"], base + wide])
    axes.set_xlim(0, min(1.0, 1.05 * float(np.nanmax(ends.to_numpy(dtype=float), initial=0.01))))
    axes.set_xlabel("share of the nearest faces", fontsize=8.5)
