"""Draw heatmaps of C, words by groups, one or more figures per category, narrow enough for a phone."""

import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from src.report.drawing import Drawing, clean
from src.report.forest_plot import format_digits, split_into_figures
from src.studies.shared.face_axes import label_axis
from src.studies.sobit.word_rows import ALPHA, list_axes

COLOUR_MAP = "PuOr_r"
# Maximum number of words per figure; a longer category continues in the next figure.
MAX_WORDS = 60
# Maximum number of groups of an axis with wide columns, which have room for values.
MAX_WIDE_COLUMNS = 8
# Inches: height of a word's row, width of a column with and without values, width of a letter.
ROW_HEIGHT, WIDE_COLUMN, NARROW_COLUMN, LETTER_WIDTH = 0.165, 0.215, 0.118, 0.065
MAX_LETTERS = 24  # of the name of a word or group
CAPTION = (
    "C: the mean cosine of a caption with the faces of a group less that with all other faces, in SDs over "
    "all faces. Orange: nearer to the group's faces than to the others'; violet: further away. A hollow cell "
    "has q > .05 or none. All categories and models have the same scale. The values of narrow columns are in "
    "tables/sobit.csv."
)


def find_colour_limit(rows: pd.DataFrame) -> float:
    """Find the end of the colour scale: the largest |C|, or 1 if all are 0."""
    largest = float(np.nanmax(rows["association"].abs().to_numpy(dtype=float), initial=0))
    return largest if largest > 0 else 1.0


def draw_heatmaps(rows: pd.DataFrame, limit: float, model_number: int) -> list[Drawing]:
    """Draw C of each word and group of a model, in colours from -limit to limit.

    `model_number` is part of the figures' file names.
    """
    cells = rows.dropna(subset=["association"]).drop_duplicates(["category", "word", "axis", "group"])
    drawings = []
    for index, (category, category_rows) in enumerate(cells.groupby("category", sort=False), 1):
        stem, title = f"sobit-{model_number}-{index}", f"{category_rows['model'].iloc[0]}: {category}"
        for words, name, heading in split_into_figures(
            [*dict.fromkeys(category_rows["word"])], MAX_WORDS, stem, title
        ):
            chosen = category_rows[category_rows["word"].isin(words)]
            figure = _draw_figure(chosen, words, heading, limit)
            alt_text = _describe_cells(chosen, heading)
            drawings.append(Drawing(name, figure, heading, alt_text, CAPTION, dense=True))
    return drawings


def _describe_cells(cells: pd.DataFrame, title: str) -> str:
    """Describe the heatmap: for each word, the group with the largest |C|, and its C."""
    largest_rows = cells["association"].abs().groupby(cells["word"], sort=False).idxmax()
    rows = cells.loc[largest_rows].to_dict("records")
    texts = [f"{row['word']}: {row['group']} {format_digits(row['association'])}" for row in rows]
    significant = int((cells["q"] <= ALPHA).sum())
    return (
        f"Heatmap of C, words by groups. {title}. {significant} of {len(cells)} cells have q ≤ .05. For each "
        f"word, the group with the largest |C|: {'; '.join(texts)}."
    )


def _draw_figure(rows: pd.DataFrame, words: list[str], title: str, limit: float) -> Figure:
    rows_by_axis = {axis: rows[rows["axis"] == axis] for axis in list_axes(rows)}
    counts = [axis_rows["group"].nunique() for axis_rows in rows_by_axis.values()]
    widths = [(WIDE_COLUMN if count <= MAX_WIDE_COLUMNS else NARROW_COLUMN) * count for count in counts]
    names = [clean(word, MAX_LETTERS) for word in words]
    groups = [
        clean(group, MAX_LETTERS) for cells in rows_by_axis.values() for group in cells["group"].unique()
    ]
    left, above = (LETTER_WIDTH * max(map(len, texts)) for texts in (names, groups))
    size = max(3.4, left + sum(widths) + 0.3), above + ROW_HEIGHT * len(words) + 1.2
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(clean(title, 56), fontsize=9.5, x=0.02, ha="left")
    panels = figure.subplots(1, len(rows_by_axis), width_ratios=widths, squeeze=False)[0]
    for panel, (axis, axis_rows) in zip(panels, rows_by_axis.items(), strict=True):
        panel.set_title(clean(label_axis(axis), 20), fontsize=8)
        _draw_panel(panel, axis_rows, words, Normalize(-limit, limit))
    figure.align_titles()
    panels[0].set_yticks(range(len(names)), names, fontsize=7.5)
    _draw_legend(figure, panels, limit)
    return figure


def _draw_panel(panel: Axes, cells: pd.DataFrame, words: list[str], scale: Normalize) -> None:
    groups = cells["group"].unique()
    grid, q = (
        cells.pivot(index="word", columns="group", values=name).reindex(words, columns=groups).to_numpy(float)
        for name in ("association", "q")
    )
    rows, columns = grid.shape
    panel.imshow(grid, cmap=COLOUR_MAP, norm=scale, aspect="auto", interpolation="none")
    panel.set_facecolor("#dddddd")
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0, pad=2)
    panel.xaxis.tick_top()
    names = [clean(group, MAX_LETTERS) for group in groups]
    panel.set_xticks(range(columns), names, rotation=90, fontsize=7.5)
    panel.set_yticks([])
    panel.vlines(np.arange(0.5, columns - 1), -0.5, rows - 0.5, color="white", linewidth=0.6, zorder=2)
    panel.hlines(np.arange(0.5, rows - 1), -0.5, columns - 0.5, color="white", linewidth=0.6, zorder=2)
    # A white square makes a cell hollow unless its q is small; a cell without q is also hollow.
    is_hollow = np.isfinite(grid) & ~(q <= ALPHA)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * 0.37
    squares = np.argwhere(is_hollow)[:, None, ::-1] + corners
    panel.add_collection(PolyCollection([*squares], facecolor="white", linewidth=0, zorder=3))
    if columns > MAX_WIDE_COLUMNS:
        return
    is_dark = np.abs(grid) > 0.72 * float(scale.vmax or 1)
    colours = np.where(is_hollow, "#666666", np.where(is_dark, "white", "black"))
    for (row, column), value in np.ndenumerate(grid):
        text = "–" if np.isnan(value) else format_briefly(value)
        style: dict[str, Any] = {"ha": "center", "va": "center", "color": str(colours[row, column])}
        panel.text(column, row, text, fontsize=6, zorder=4, **style)


def format_briefly(value: float) -> str:
    """Format a number in at most three characters and its sign, if its size is below 9.95.

    >>> [format_briefly(value) for value in (-0.414, 1.26, -0.001, 10.02)]
    ['−.41', '1.3', '0', '10.0']
    """
    text = f"{value:.2f}" if abs(value) < 0.995 else f"{value:.1f}"
    return re.sub(r"^(-?)0\.", r"\1.", text).replace("-", "−") if float(text) else "0"


def _draw_legend(figure: Figure, panels: Sequence[Axes], limit: float) -> None:
    mappable = ScalarMappable(Normalize(-limit, limit), COLOUR_MAP)
    options: dict[str, Any] = {"location": "bottom", "shrink": 0.45, "anchor": (0, 1), "aspect": 15}
    ticks = [-limit, 0, limit]
    bar = figure.colorbar(mappable, ax=panels, ticks=ticks, format="%.2f", pad=0.02, **options)
    bar.set_label("C, in SDs", fontsize=7.5)
    bar.ax.tick_params(labelsize=7.5, length=0)
    colour = matplotlib.colormaps[COLOUR_MAP](0.8)
    cells = [
        Patch(facecolor=face, edgecolor=colour, linewidth=2, label=label)
        for face, label in ((colour, "q ≤ .05"), ("white", "q > .05 or none"))
    ]
    figure.legend(handles=cells, loc="lower right", fontsize=7.5, frameon=False, handlelength=1)
