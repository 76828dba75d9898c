"""Figure of the report: whose faces a model's poems are nearer to positive or to negative words about."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import MultipleLocator

from src.report.drawing import Drawing
from src.report.forest_plot import forest_plot, in_digits, in_order

POOLS = ("positive", "negative")
LABEL = "CLES: share of pairs of faces whose first scores higher"


def pairs(rows: pd.DataFrame, *, name: str, title: str) -> Drawing:
    """CLES of each pair of groups with its interval, by pool.

    Args:
        rows: of analyses.csv, one model and reading, one way with the tokens in both pools.
        name: of the files.
        title: of the figure.
    """
    values = rows.assign(
        block=rows["group_a"] + " / " + rows["group_b"],
        series=rows["pool"] + " words",
        filled=(rows["cles_low"] > 0.5) | (rows["cles_high"] < 0.5),
        text=rows["cles"].map(in_digits),
    ).rename(columns={"cles": "value", "cles_low": "low", "cles_high": "high"})
    figure, axes, placed = forest_plot(
        in_order(values, block=(), pool=POOLS),
        title=title,
        label=LABEL,
        series=[f"{pool} words" for pool in POOLS],
        hollow="interval holds ½",
        zero=0.5,
        limits=(-0.02, 1.02),
    )
    axes.xaxis.set_major_locator(MultipleLocator(0.25))
    words = "; ".join(placed["block"] + ", " + placed["pool"] + ": " + placed["text"])
    return Drawing(name, figure, title, f"Dot plot of CLES with intervals. {title}. {words}.")
