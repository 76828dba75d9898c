"""Heatmaps of words by groups, a figure per category, narrow enough for a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from src.report.drawing import Drawing, plain
from src.report.forest_plot import number_said
from src.studies.sobit.word_rows import NAMED, SMALL, axes

COLOURS = "PuOr_r"
# Words in one figure; a longer category goes on in another.
WORDS = 60
# Groups whose columns have room for values.
ROOMY = 8
# Inches: a word's row, a column with and without values, between blocks, a letter of a word, of a group.
ROW, WIDE, NARROW, GAP, LETTER, TALL = 0.165, 0.215, 0.118, 0.1, 0.062, 0.068
# Above the names of groups, and below the words.
TITLE, HEAD, BELOW, MARGIN, FRAME = 0.3, 0.2, 0.56, 0.1, 0.024
LETTERS = 24
CAPTION = (
    "C: the mean cosine of a caption with the faces of a group less that with all other faces, in SDs over "
    "all faces. Orange: nearer to the group's faces than to the others', violet: further. A hollow cell has "
    "q > .05. One scale for all categories and models; columns without room for values have theirs in "
    "tables/sobit.csv."
)


@dataclass(frozen=True)
class Block:
    """The columns of an axis.

    Attributes:
        axis: `race`, `gender` or `both`.
        groups: its columns.
        values, q: [words, groups]; NaN where there is none.
    """

    axis: str
    groups: Sequence[str]
    values: np.ndarray
    q: np.ndarray

    @property
    def column(self) -> float:
        """Width of a column, inches."""
        return WIDE if len(self.groups) <= ROOMY else NARROW


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
        words = [*dict.fromkeys(own["word"])]
        parts = [words[start : start + WORDS] for start in range(0, len(words), WORDS)]
        for which, part in enumerate(parts, 1):
            many = len(parts) > 1
            title = f"{own['model'].iloc[0]}: {category}" + f" ({which} of {len(parts)})" * many
            name = f"sobit-{number}-{place}" + f"-{which}" * many
            chosen = own[own["word"].isin(part)]
            drawn.append(
                Drawing(name, _figure(chosen, part, title, end), title, _said(chosen, title), CAPTION, True)
            )
    return drawn


def _said(own: pd.DataFrame, title: str) -> str:
    """Of each word the group that it is furthest from 0 with."""
    at = own["association"].abs().groupby(own["word"], sort=False).idxmax()
    rows = own.loc[at].to_dict("records")
    said = [f"{row['word']}: {row['group']} {number_said(row['association'])}" for row in rows]
    small = int((own["q"] <= SMALL).sum())
    return (
        f"Heatmap of C, words by groups. {title}. {small} of {len(own)} cells have q ≤ .05. Of each word "
        f"the group with the largest |C|: {'; '.join(said)}."
    )


def _blocks(own: pd.DataFrame, words: Sequence[str]) -> list[Block]:
    found = []
    for axis in axes(own):
        part = own[own["axis"] == axis]
        groups = [*dict.fromkeys(part["group"])]
        grids = [
            part.pivot(index="word", columns="group", values=name).reindex(index=[*words], columns=groups)
            for name in ("association", "q")
        ]
        found.append(Block(axis, groups, *(grid.to_numpy(dtype=float) for grid in grids)))
    return found


def _figure(own: pd.DataFrame, words: Sequence[str], title: str, end: float) -> Figure:
    blocks = _blocks(own, words)
    names = [plain(word, LETTERS) for word in words]
    left = MARGIN + LETTER * max(map(len, names)) + 0.06
    above = (
        TITLE + HEAD + TALL * max(len(plain(group, LETTERS)) for block in blocks for group in block.groups)
    )
    widths = [block.column * len(block.groups) for block in blocks]
    width = max(3.4, left + sum(widths) + GAP * (len(blocks) - 1) + MARGIN)
    height = above + ROW * len(words) + BELOW
    figure = Figure(figsize=(width, height))
    figure.text(MARGIN / width, 1 - 0.07 / height, plain(title, 56), fontsize=9.5, va="top")
    scale = Normalize(-end, end)
    for block, wide in zip(blocks, widths, strict=True):
        place = (left / width, BELOW / height, wide / width, ROW * len(words) / height)
        panel = figure.add_axes(place)
        _panel(panel, block, scale)
        x, y = (left + wide / 2) / width, 1 - (TITLE + 0.06) / height
        figure.text(x, y, plain(NAMED.get(block.axis, block.axis), 20), fontsize=8, ha="center", va="center")
        left += wide + GAP
    first = figure.axes[0]
    for row, name in enumerate(names):
        _outside(first, -0.5, row, name, (-2, 0), ha="right", va="center")
    _key(figure, end)
    return figure


def _panel(panel: Axes, block: Block, scale: Normalize) -> None:
    panel.imshow(block.values, cmap=COLOURS, norm=scale, aspect="auto", interpolation="none")
    panel.set_facecolor("#dddddd")
    panel.set_axis_off()
    # Lines and texts, not ticks: hundreds of ticks would take most of the report's time.
    rows, columns = block.values.shape
    panel.vlines(np.arange(0.5, columns - 1), -0.5, rows - 0.5, color="white", linewidth=0.6, zorder=2)
    panel.hlines(np.arange(0.5, rows - 1), -0.5, columns - 0.5, color="white", linewidth=0.6, zorder=2)
    for column, group in enumerate(block.groups):
        _outside(panel, column, -0.5, plain(group, LETTERS), (0, 3), ha="center", va="bottom", rotation=90)
    # Hollow unless q says otherwise: what has no q is no finding.
    hollow = np.isfinite(block.values) & ~(block.q <= SMALL)
    x, y = FRAME / block.column, FRAME / ROW
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [0.5 - x, 0.5 - y]
    inside = np.argwhere(hollow)[:, None, ::-1] + corners
    panel.add_collection(PolyCollection([*inside], facecolor="white", linewidth=0, zorder=3))
    if len(block.groups) <= ROOMY:
        _values(panel, block, hollow, scale)


def _outside(panel: Axes, x: float, y: float, text: str, away: tuple[float, float], **look: Any) -> None:
    """A name beside the panel, so many points away."""
    panel.annotate(
        text, (x, y), away, textcoords="offset points", fontsize=7.5, annotation_clip=False, **look
    )


def _values(panel: Axes, block: Block, hollow: np.ndarray, scale: Normalize) -> None:
    strong = np.abs(block.values) > 0.72 * float(scale.vmax or 1)
    colours = np.where(hollow, "#666666", np.where(strong, "white", "black"))
    for (row, column), value in np.ndenumerate(block.values):
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


def _key(figure: Figure, end: float) -> None:
    width, height = figure.get_size_inches()
    panel = figure.add_axes((MARGIN / width, 0.3 / height, 1.5 / width, 0.1 / height))
    panel.imshow(np.linspace(-1, 1, 101)[None], cmap=COLOURS, aspect="auto", extent=(-end, end, 0, 1))
    panel.set_axis_off()
    ends = [(-end, f"{-end:.2f}".replace("-", "−"), "left"), (0, "0", "center"), (end, f"{end:.2f}", "right")]
    for x, text, side in ends:
        _outside(panel, x, 0, text, (0, -2), ha=side, va="top")
    figure.text(1.68 / width, 0.35 / height, "C, in SDs", fontsize=7.5, va="center")
    colours = matplotlib.colormaps[COLOURS]
    for x, face, label in ((2.3, colours(0.8), "q ≤ .05"), (2.92, "white", "q > .05")):
        place = (x / width, 0.29 / height), 0.11 / width, 0.12 / height
        look: dict[str, Any] = {"edgecolor": colours(0.8), "linewidth": 2, "transform": figure.transFigure}
        figure.add_artist(Rectangle(*place, facecolor=face, **look))
        figure.text((x + 0.17) / width, 0.35 / height, label, fontsize=7.5, va="center")
