"""Dot plots of rho with its interval and its placebo."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import forest_plot, in_digits, in_order, in_words, mark, split

# Series in one figure; more of them get figures of their own.
SERIES = 12
LABEL, LIMITS = "Spearman's ρ", (-1.02, 1.02)
POINT = "Each point is one analysis, the number at the right its ρ."
INTERVAL = "Its line is the 95% interval."
HOLLOW = (
    "Grey: from the mean to the 95th percentile (tick) of its own placebo. A hollow point is not above that "
    "percentile."
)


def dots(
    rows: pd.DataFrame, series: Sequence[str], *, by: tuple[str, str], name: str, title: str
) -> list[Drawing]:
    """Rho of analyses on an axis from -1 to 1, in blocks.

    Args:
        rows: of analyses.csv.
        series: names that are told apart by colour and shape, in the order that decides these.
        by: the column that makes a block, and the column that names the series.
        name: of the files.
        title: of the figure.

    Returns:
        A figure for each `SERIES` names that occur.
    """
    columns = {"rho": "value", "ci_low": "low", "ci_high": "high"}
    columns |= {"placebo_mean": "band_low", "placebo_q95": "band_high"}
    values = rows.assign(block=rows[by[0]], series=rows[by[1]].astype(str)).rename(columns=columns)
    values = in_order(values, block=(), series=series)
    # Without a placebo, all are filled.
    values["filled"] = ~(values["value"] <= values["band_high"])
    values["text"] = values["value"].map(in_digits)
    values["words"] = values["series"] + " " + values["text"]
    names = [one for one in series if one in {*values["series"]}]
    return [
        _figure(values[values["series"].isin(some)], series, file, heading)
        for some, file, heading in split(names, SERIES, name, title)
    ]


def _figure(rows: pd.DataFrame, series: Sequence[str], name: str, title: str) -> Drawing:
    figure, axes, placed = forest_plot(
        rows,
        title=title,
        label=LABEL,
        series=series,
        limits=LIMITS,
        band="placebo: mean to 95th",
        hollow="not above placebo",
    )
    mark(axes, placed["band_high"], placed["y"])
    caption = [POINT]
    caption += [INTERVAL] * bool(rows["low"].notna().any())
    caption += [HOLLOW] * bool(rows["band_high"].notna().any())
    alternative = f"Dot plot of ρ with intervals and placebo. {title}. {in_words(placed)}."
    return Drawing(name, figure, title, alternative, " ".join(caption))
