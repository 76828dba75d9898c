"""The words that each group's faces are associated with most, with intervals and nulls."""

from __future__ import annotations

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

# Words of a group; of an axis of two groups, whose C's are each other's with the sign turned, twice as many.
WORDS = 6
CAPTION = (
    "Of each group the words with the largest |C|, chosen among all: the largest of many lean outwards, and "
    "would do less in other faces. Each point is C, its line the 95% interval (faces resampled), the number "
    "at the right its value. Grey: where |C| lies in 95 of 100 permutations of the faces' labels, allowing "
    "for the number of groups."
)


def skewed(rows: pd.DataFrame, axis: str, number: int) -> Drawing | None:
    """Dots of the most skewed words of each group of an axis; None where no association was measured.

    Args:
        rows: `words.completed` of one model and reading.
        axis: which.
        number: of the model, for the file's name.
    """
    known = rows[rows["axis"] == axis].dropna(subset=["association"]).drop_duplicates(["caption", "group"])
    if known.empty:
        return None
    groups = [*dict.fromkeys(known["group"])]
    mirrored = len(groups) == 2
    chosen = pd.concat(
        [_most(known, group, WORDS * (1 + mirrored)) for group in groups[: 1 if mirrored else None]]
    )
    title = f"{known['model'].iloc[0]}: {NAMED.get(axis, axis)}, largest |C|"
    told = CAPTION + f" Of {groups[1]} they are the same with the sign turned." * mirrored
    blocks = []
    for group, own in chosen.groupby("group", sort=False):
        n = f"n = {own['n'].iloc[0]:,.0f} of {own[['n', 'n_rest']].iloc[0].sum():,.0f} faces"
        values = own["association"].map(number_said)
        blocks.append(Block(str(group), n, [*zip(own["word"].map(str), values, strict=True)]))
    figure, axes, heights = in_blocks(title, _key(chosen), blocks)
    _draw(axes, chosen.assign(y=heights))
    said = [f"{name} ({n}): {', '.join(map(' '.join, rows))}" for name, n, rows in blocks]
    alternative = f"Dot plot of C with intervals and nulls. {title}. {'; '.join(said)}."
    return Drawing(f"sobit-skewed-{number}-{axis}", figure, title, alternative, told)


def _most(known: pd.DataFrame, group: str, count: int) -> pd.DataFrame:
    own = known[known["group"] == group]
    largest = own["association"].abs().sort_values(ascending=False, kind="stable").index[:count]
    return own.loc[largest].sort_values("association", ascending=False, kind="stable")


def _key(chosen: pd.DataFrame) -> list[Line2D | Patch]:
    key: list[Line2D | Patch] = [row_figure.point("C, 95% interval")]
    if chosen["null_q95"].notna().any():
        key.append(Patch(label="permuted labels: 95%"))
    if not (chosen["q"] <= SMALL).all():
        key.append(row_figure.HOLLOW)
    return key


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    # Drawn many at a time: an artist for each would take most of the report's time.
    y, wide = rows["y"], rows["null_q95"]
    axes.hlines(y, -wide, wide, color=row_figure.BAND, linewidth=5, zorder=1)
    for side in (-1, 1):
        axes.vlines(side * wide, y - 0.06, y + 0.06, color="#666666", linewidth=1, zorder=2)
    low, high = rows["association_low"], rows["association_high"]
    axes.hlines(y, low, high, color=row_figure.COLOUR, linewidth=1.6, zorder=3)
    small = rows["q"] <= SMALL
    for own, filled in ((rows[small], True), (rows[~small], False)):
        row_figure.points(axes, own["association"], own["y"], filled=filled)
    ends = rows[["association", "association_low", "association_high", "null_q95"]].abs()
    limit = 1.06 * float(np.nanmax(ends.to_numpy(dtype=float), initial=0.01))
    axes.set_xlim(-limit, limit)
    axes.axvline(0, color="#888888", linewidth=0.7, zorder=0)
    axes.set_xlabel("C, in SDs (0: as near as the others' faces)", fontsize=8.5)
