"""Draw forest plots: rows of values with intervals and reference bands, narrow enough for a phone."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import blended_transform_factory

from src.report.drawing import COLUMN_WIDTH, MAX_LETTERS, clean, style_of

ROW_HEIGHT = 0.165  # inches
# In rows: height of a block's name, and gap above a name that several rows share.
BLOCK_HEIGHT, NAME_GAP = 1.5, 0.4
# Maximum letters of a row's name or text, of a block's name without a note and with one, and of a note.
MAX_NAME, MAX_BLOCK, MAX_BLOCK_WITH_NOTE, MAX_NOTE = 21, 40, 20, 34
BAND_COLOUR = "#c4c4c4"
# Columns of the rows, and defaults of missing columns.
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("block", "note", "name", "series", "text"), ""),
    **dict.fromkeys(("value", "low", "high", "band_low", "band_high"), np.nan),
    "filled": True,
}


def make_figure(height: float, title: str, legend: Sequence[Line2D | Patch]) -> tuple[Figure, Axes]:
    """Make a figure as wide as a column, with its title and legend above a plot of `height` inches."""
    labels = [str(entry.get_label()).split("\n") for entry in legend]
    columns = 2 if all(len(line) <= 19 for label in labels for line in label) else 1
    legend_height = 0.32 + 0.175 * -(-len(legend) // columns) * max(map(len, labels), default=0)
    figure = Figure(figsize=(COLUMN_WIDTH, legend_height + height + 0.5), layout="constrained")
    # The title is part of the legend: constrained layout would let two separate artists overlap.
    options: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "frameon": False}
    options |= {"fontsize": 7.5, "title_fontsize": 9, "labelspacing": 0.35, "columnspacing": 1}
    options |= {"handlelength": 1.6, "borderpad": 0.2, "borderaxespad": 0.1, "ncols": columns}
    figure.legend(handles=list(legend), title=clean(title, 40), **options)
    axes = figure.subplots()
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.tick_params(labelsize=8)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_fontsize(8)
    return figure, axes


def draw_forest_plot(
    rows: pd.DataFrame,
    *,
    title: str,
    label: str,  # label of the axis
    series: Sequence[str] = (),  # names in the order of colours and shapes; empty: order in the rows
    band: str = "",  # meaning of the reference band, for the legend
    hollow: str = "",  # meaning of a hollow point, for the legend
    further_entries: Sequence[Line2D | Patch] = (),  # further entries of the legend
    bars: bool = False,  # whether to draw a bar from 0 to each value
    zero: float = 0,  # position of the line of no effect
    limits: tuple[float | None, float | None] = (None, None),  # ends of the axis; None: range of the rows
) -> tuple[Figure, Axes, pd.DataFrame]:
    """Draw rows in the given order; return figure, axes, and the rows with all of `COLUMNS` and position `y`.

    Rows have any of `COLUMNS`: the `block` of a row and a `note` at the right of the block's name; the row's
    `name`, at its left, and `text`, at its right; the `series` that determines its colour and shape; `value`,
    its interval from `low` to `high`, and the reference band from `band_low` to `band_high`, NaN where
    missing; `filled`: False for a hollow point.
    """
    rows = rows.assign(**{name: value for name, value in COLUMNS.items() if name not in rows})
    rows = rows.reset_index(drop=True)
    # Rows that begin a block; rows that begin a name, if rows share names (later rows leave theirs empty).
    begins_block = (rows["block"] != rows["block"].shift()) & (rows["block"] != "")
    begins_name = ~begins_block & (rows["name"] != "") & bool((rows["name"] == "").any())
    rows["y"] = rows.index + BLOCK_HEIGHT * begins_block.cumsum() + NAME_GAP * begins_name.cumsum()
    series_index = {name: index for index, name in enumerate(series or dict.fromkeys(rows["series"]))}
    rows["series_index"] = rows["series"].map(series_index).fillna(0).astype(int)
    bottom, top = rows["y"].max() + 0.7, -0.7
    legend = [*_build_legend(rows, series_index, band, hollow), *further_entries]
    figure, axes = make_figure(ROW_HEIGHT * (bottom - top), title, legend)
    _draw_values(axes, rows, bars)
    _write_names(figure, axes, rows, begins_block)
    axes.axvline(zero, color="#888888", linewidth=0.7, zorder=0.9)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.7)
    axes.set(xlabel=label, xlim=limits, ylim=(bottom, top), yticks=[], axisbelow=True)
    axes.locator_params(axis="x", nbins=6)
    return figure, axes, rows


def draw_marks(axes: Axes, x: pd.Series, y: pd.Series, color: str = "#666666") -> None:
    """Draw a short vertical stroke at each (x, y), above the bands."""
    axes.vlines(x, y - 0.35, y + 0.35, color=color, linewidth=1.2, zorder=2)


def describe_rows(rows: pd.DataFrame) -> str:
    """Join the texts in column `alt_text` of all rows, block by block."""
    texts = []
    for (block, note), block_rows in rows.groupby(["block", "note"], sort=False):
        head = f"{block} ({note}): " if note else f"{block}: " if block else ""
        texts.append(head + ", ".join(block_rows["alt_text"]))
    return "; ".join(texts)


def sort_by(rows: pd.DataFrame, **orders: Sequence[Hashable]) -> pd.DataFrame:
    """Sort rows by several columns, each in a given order of its values; empty: order of appearance."""

    def rank_values(column: pd.Series) -> pd.Series:
        order = orders[str(column.name)] or dict.fromkeys(column)
        return column.map({value: rank for rank, value in enumerate(order)})

    return rows.sort_values([*orders], key=rank_values, kind="stable")


def split_into_figures(
    names: Sequence[str], size: int, file_name: str, title: str
) -> Iterator[tuple[list[str], str, str]]:
    """Split names into figures of at most `size` names; yield names, file name and title of each."""
    chunks = [[*names[start : start + size]] for start in range(0, len(names), size)]
    for number, chunk in enumerate(chunks, 1):
        if len(chunks) == 1:
            yield chunk, file_name, title
        else:
            yield chunk, f"{file_name}-{number}", f"{title} ({number} of {len(chunks)})"


def format_digits(value: float, digits: int = 2) -> str:
    """Format a number for a figure; "undefined" for NaN."""
    return "undefined" if pd.isna(value) else f"{value:z.{digits}f}".replace("-", "−")


def build_point_style(index: int, filled: bool = True) -> dict[str, Any]:
    """Return matplotlib's options for the points of a series, filled or hollow."""
    shape = style_of(index)
    return {
        "linestyle": "",
        "marker": shape["marker"],
        "markerfacecolor": shape["color"] if filled else "white",
        "markeredgecolor": "#333333" if filled else shape["color"],
        "markeredgewidth": 0.5 if filled else 1.3,
    }


def build_legend_handles(names: Sequence[str], max_letters: int = MAX_LETTERS) -> list[Line2D]:
    """Return the legend entries of series, in the order of their colours and shapes."""
    labels = enumerate(clean(name, max_letters) for name in names)
    return [Line2D([], [], markersize=6, label=label, **build_point_style(index)) for index, label in labels]


def _build_legend(
    rows: pd.DataFrame, series_index: dict[str, int], band: str, hollow: str
) -> list[Line2D | Patch]:
    present = {*rows["series"]} - {""}
    handles = zip(series_index, build_legend_handles([*series_index], 60), strict=True)
    entries: list[Line2D | Patch] = [handle for name, handle in handles if name in present]
    if rows["band_high"].notna().any():
        entries.append(Patch(color=BAND_COLOUR, label=band))
    if not rows["filled"].all():
        edge = {"markeredgecolor": "#444444"} if len(series_index) > 1 else {}
        hollow_style = build_point_style(0, filled=False) | edge
        entries.append(Line2D([], [], markersize=6, label=hollow, **hollow_style))
    return entries


def _draw_values(axes: Axes, rows: pd.DataFrame, bars: bool) -> None:
    # One artist per group of rows: one per row would take up most of the report's time.
    axes.hlines(rows["y"], rows["band_low"], rows["band_high"], color=BAND_COLOUR, linewidth=5, zorder=1)
    keys: Any
    for keys, group in rows.groupby(["series_index", "filled"]):
        index, filled = keys
        color = style_of(index)["color"]
        if bars:
            axes.barh(group["y"], group["value"], height=0.66, color=color, alpha=0.35, zorder=1.5)
        axes.hlines(group["y"], group["low"], group["high"], color=color, linewidth=1.6, zorder=3)
        shape = build_point_style(index, filled)
        axes.plot(group["value"], group["y"], markersize=5.5, zorder=4, clip_on=False, **shape)


def _write_names(figure: Figure, axes: Axes, rows: pd.DataFrame, begins_block: pd.Series) -> None:
    row_transform = axes.get_yaxis_transform()
    for x, side, column, size in ((-0.02, "right", "name", 7.5), (1.02, "left", "text", 7)):
        for y, text in zip(rows["y"], rows[column], strict=True):
            if text:
                label = clean(text, MAX_NAME)
                axes.text(x, y, label, fontsize=size, ha=side, va="center", transform=row_transform)
    # Names of blocks span the figure.
    block_transform = blended_transform_factory(figure.transFigure, axes.transData)
    options: dict[str, Any] = {"transform": block_transform, "in_layout": False, "va": "center", "zorder": 5}
    options["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for row in rows[begins_block].to_dict("records"):
        y = row["y"] - BLOCK_HEIGHT / 2 - 0.25
        stroke: dict[str, Any] = {"color": "#dddddd", "linewidth": 0.6, "in_layout": False, "clip_on": False}
        axes.plot([0.02, 0.98], [y - 0.75] * 2, transform=block_transform, **stroke)
        max_letters = MAX_BLOCK_WITH_NOTE if row["note"] else MAX_BLOCK
        axes.text(0.02, y, clean(row["block"], max_letters), fontsize=8, fontweight="bold", **options)
        if row["note"]:
            axes.text(0.98, y, clean(row["note"], MAX_NOTE), fontsize=7, ha="right", **options)
