"""Heatmaps of words by groups, a figure per category, narrow enough for a phone."""

from __future__ import annotations

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

from src.report.drawing import Drawing, plain
from src.report.forest_plot import in_digits, split
from src.studies.sobit.word_rows import NAMED, SMALL, axes

COLOURS = "PuOr_r"
# Words in one figure; a longer category goes on in another.
WORDS = 60
# Groups whose columns have room for values.
ROOMY = 8
# Inches: a word's row, a column with and without values, a letter of a name.
ROW, WIDE, NARROW, LETTER = 0.165, 0.215, 0.118, 0.065
LETTERS = 24
CAPTION = (
    "C: the mean cosine of a caption with the faces of a group less that with all other faces, in SDs over "
    "all faces. Orange: nearer to the group's faces than to the others', violet: further. A hollow cell has "
    "q > .05. One scale for all categories and models; columns without room for values have theirs in "
    "tables/sobit.csv."
)


def limit(rows: pd.DataFrame) -> float:
    """The end of the scale: the largest |C|."""
    found = float(np.nanmax(rows["association"].abs().to_numpy(dtype=float), initial=0))
    return found if found > 0 else 1.0


def heatmaps(rows: pd.DataFrame, end: float, number: int) -> list[Drawing]:
    """C of each word and group of a model.

    Args:
        rows: `words.completed` of one model and reading.
        end: of the scale, see `limit`.
        number: of the model, for the files' names.
    """
    known = rows.dropna(subset=["association"]).drop_duplicates(["category", "word", "axis", "group"])
    drawn = []
    for place, (category, own) in enumerate(known.groupby("category", sort=False), 1):
        files, title = f"sobit-{number}-{place}", f"{own['model'].iloc[0]}: {category}"
        for words, name, heading in split([*dict.fromkeys(own["word"])], WORDS, files, title):
            chosen = own[own["word"].isin(words)]
            figure, alternative = _figure(chosen, words, heading, end), _said(chosen, heading)
            drawn.append(Drawing(name, figure, heading, alternative, CAPTION, dense=True))
    return drawn


def _said(own: pd.DataFrame, title: str) -> str:
    """Of each word the group that it is furthest from 0 with."""
    at = own["association"].abs().groupby(own["word"], sort=False).idxmax()
    rows = own.loc[at].to_dict("records")
    said = [f"{row['word']}: {row['group']} {in_digits(row['association'])}" for row in rows]
    small = int((own["q"] <= SMALL).sum())
    return (
        f"Heatmap of C, words by groups. {title}. {small} of {len(own)} cells have q ≤ .05. Of each word "
        f"the group with the largest |C|: {'; '.join(said)}."
    )


def _figure(rows: pd.DataFrame, words: Sequence[str], title: str, end: float) -> Figure:
    blocks = {axis: _grids(rows[rows["axis"] == axis], words) for axis in axes(rows)}
    columns = [values.shape[1] for values, _ in blocks.values()]
    widths = [(WIDE if count <= ROOMY else NARROW) * count for count in columns]
    names = [plain(word, LETTERS) for word in words]
    groups = [plain(group, LETTERS) for values, _ in blocks.values() for group in map(str, values)]
    left, above = (LETTER * max(map(len, texts)) for texts in (names, groups))
    size = max(3.4, left + sum(widths) + 0.3), above + ROW * len(words) + 1.2
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(plain(title, 56), fontsize=9.5, x=0.02, ha="left")
    panels = figure.subplots(1, len(blocks), width_ratios=widths, squeeze=False)[0]
    for panel, (axis, (values, q)) in zip(panels, blocks.items(), strict=True):
        panel.set_title(plain(NAMED.get(axis, axis), 20), fontsize=8)
        _panel(panel, values, q, Normalize(-end, end))
    figure.align_titles()
    panels[0].set_yticks(range(len(names)), names, fontsize=7.5)
    _key(figure, panels, end)
    return figure


def _grids(rows: pd.DataFrame, words: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return C and its q, words by groups; NaN where there is none."""
    groups = [*dict.fromkeys(rows["group"])]
    values, q = (
        rows.pivot(index="word", columns="group", values=name).reindex(index=[*words], columns=groups)
        for name in ("association", "q")
    )
    return values, q


def _panel(panel: Axes, values: pd.DataFrame, q: pd.DataFrame, scale: Normalize) -> None:
    rows, columns = values.shape
    grid = values.to_numpy(dtype=float)
    panel.imshow(grid, cmap=COLOURS, norm=scale, aspect="auto", interpolation="none")
    panel.set_facecolor("#dddddd")
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0, pad=2)
    panel.xaxis.tick_top()
    names = [plain(group, LETTERS) for group in map(str, values)]
    panel.set_xticks(range(columns), names, rotation=90, fontsize=7.5)
    panel.set_yticks([])
    panel.vlines(np.arange(0.5, columns - 1), -0.5, rows - 0.5, color="white", linewidth=0.6, zorder=2)
    panel.hlines(np.arange(0.5, rows - 1), -0.5, columns - 0.5, color="white", linewidth=0.6, zorder=2)
    # Hollow unless q says otherwise: what has no q is no finding.
    hollow = np.isfinite(grid) & ~(q.to_numpy(dtype=float) <= SMALL)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * 0.37
    inside = np.argwhere(hollow)[:, None, ::-1] + corners
    panel.add_collection(PolyCollection([*inside], facecolor="white", linewidth=0, zorder=3))
    if columns <= ROOMY:
        _values(panel, grid, hollow, scale)


def _values(panel: Axes, grid: np.ndarray, hollow: np.ndarray, scale: Normalize) -> None:
    strong = np.abs(grid) > 0.72 * float(scale.vmax or 1)
    colours = np.where(hollow, "#666666", np.where(strong, "white", "black"))
    for (row, column), value in np.ndenumerate(grid):
        colour = str(colours[row, column])
        text = "–" if np.isnan(value) else brief_number(value)
        panel.text(column, row, text, ha="center", va="center", fontsize=6, color=colour, zorder=4)


def brief_number(value: float) -> str:
    """A number in three letters and its sign.

    >>> brief_number(-0.414), brief_number(1.26), brief_number(-0.001)
    ('−.41', '1.3', '0')
    """
    text = f"{value:.2f}" if abs(value) < 0.995 else f"{value:.1f}"
    return text.replace("0.", ".", 1).replace("-", "−") if float(text) else "0"


def _key(figure: Figure, panels: Sequence[Axes], end: float) -> None:
    mappable = ScalarMappable(Normalize(-end, end), COLOURS)
    about: dict[str, Any] = {
        "location": "bottom",
        "shrink": 0.45,
        "anchor": (0, 1),
        "aspect": 15,
        "pad": 0.02,
    }
    bar = figure.colorbar(mappable, ax=panels, ticks=[-end, 0, end], format="%.2f", **about)
    bar.set_label("C, in SDs", fontsize=7.5)
    bar.ax.tick_params(labelsize=7.5, length=0)
    strong = matplotlib.colormaps[COLOURS](0.8)
    cells = [
        Patch(facecolor=face, edgecolor=strong, linewidth=2, label=label)
        for face, label in ((strong, "q ≤ .05"), ("white", "q > .05"))
    ]
    figure.legend(handles=cells, loc="lower right", fontsize=7.5, frameon=False, handlelength=1)
