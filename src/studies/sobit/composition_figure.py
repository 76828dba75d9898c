"""Whose faces a word retrieves, against whose faces there are."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import Drawing
from src.report.forest_plot import forest_plot, in_digits, in_words
from src.studies.sobit.word_rows import NAMED, SMALL

# Words in a figure: of few groups, and of many.
WORDS, FEW, ROOMY = 6, 3, 8
CAPTION = (
    "The words with the largest MaxSkew, chosen among all: the largest of many lean outwards, and would do "
    "less in other faces. A bar is a group's share of the nearest faces, its line the 95% interval, the tick "
    "the group's share of all faces (base), and the number at the right their ratio. Grey: within it lie 95 "
    "of 100 permutations of the faces' labels, allowing for the number of groups. A hollow point has q > .05."
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
    shown = pd.concat([known[known["caption"] == caption] for caption in chosen])
    rows = shown.assign(
        block=shown["word"].map(str),
        note=_skews(shown),
        name=shown["group"].map(str),
        series="share, 95% interval",
        band_low=shown["base_share"] - shown["null_q95"],
        band_high=shown["base_share"] + shown["null_q95"],
        filled=shown["q"] <= SMALL,
        text="× " + shown["ratio"].map(lambda ratio: in_digits(ratio, 1)),
        words=[
            f"{row['group']} {row['share_topk']:.2f} of {row['base_share']:.2f}"
            for row in shown.to_dict("records")
        ],
    ).rename(columns={"share_topk": "value", "share_low": "low", "share_high": "high"})
    base: dict[str, Any] = {
        "color": "black",
        "marker": "|",
        "markersize": 9,
        "markeredgewidth": 1.6,
        "linestyle": "",
    }
    figure, axes, placed = forest_plot(
        rows,
        title=title,
        label="share of the nearest faces",
        band="permuted labels: 95%",
        hollow="q > .05",
        key=[Line2D([], [], label="base", **base)],
        bars=True,
    )
    axes.plot(placed["base_share"], placed["y"], **base)
    axes.set_xlim(0, min(1, axes.get_xlim()[1]))
    alternative = (
        f"Bars of each group's share of the nearest faces, and its share of all. {title}. {in_words(placed)}."
    )
    return Drawing(f"sobit-nearest-{number}-{axis}", figure, title, alternative, CAPTION)


def _skews(rows: pd.DataFrame) -> list[str]:
    nulls = [f" (null 95th {in_digits(null)})" if pd.notna(null) else "" for null in rows["maxskew_q95"]]
    return [f"MaxSkew {in_digits(skew)}{null}" for skew, null in zip(rows["maxskew"], nulls, strict=True)]
