"""Draw the choices of language models: differences of rates and tau-c, by domain, direction and gender."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import MIN_CLUSTERS
from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot, sort_by, split_into_figures
from src.report.format import format_number
from src.studies.subtler.rows import GENDERS
from src.studies.subtler.scoring import ALL, GAP_BOUNDS, GAPS, TAU_BOUNDS

# Maximum number of series in a figure; further series continue in the next figure.
MAX_SERIES = 6
NO_INTERVAL = "no interval"
HOLLOW_NOTE = (
    f"Hollow: the 95% interval contains 0, or there is “{NO_INTERVAL}” (fewer than {MIN_CLUSTERS} sentence "
    "templates or stimuli). If too many answers match no option, the point is missing too."
)
RATES_NOTE = (
    "Each bar is a difference of rates: the percentage of positive (del_PL), negative (del_NL) or neutral "
    "(del_NuL) answers to positive items, less that to negative items. For a model that ignores the polarity "
    "of items, all three are near 0. The line is the 95% interval over sentence templates and stimuli. "
)
TAUS_NOTE = (
    "Each point is Stuart's τ-c between the polarity of the item and that of the answer; 0: no association. "
    "The line is the 95% interval over sentence templates and stimuli. At the right are the value, the "
    "number n of answers and, in brackets, how many of them match no option. "
)


def draw_direction(
    task_rows: pd.DataFrame, axis_rows: pd.DataFrame, direction: str, *, name: str, title: str
) -> dict[str, list[Drawing]]:
    """Draw the figures `gaps` and `taus` of a direction (SAI or ASA); empty lists if it has no rows.

    `task_rows` are rows of `rows.fill_columns` of one task and coding, with `series`, the label in the
    legend; `axis_rows` are the rows of all figures that share the axes' limits.
    """
    rows = task_rows[task_rows["direction"] == direction]
    if rows.empty:
        return {"gaps": [], "taus": []}
    gap_limit = _find_limit(axis_rows.loc[axis_rows["gender"] == ALL, [*GAPS, *GAP_BOUNDS]], min_limit=2)
    tau_limit = _find_limit(axis_rows[["tau_c", *TAU_BOUNDS]], min_limit=0.02)
    subject, suffix = f"{direction}, {title}", f"{name}-{direction}"
    gaps = _draw_plots(
        _arrange_gaps(rows[rows["gender"] == ALL]),
        bars=True,
        axis="difference, percentage points",
        limit=gap_limit,
        name=f"subtler-gaps-{suffix}",
        title=f"Rates: {subject}",
        caption=RATES_NOTE + HOLLOW_NOTE,
    )
    taus = _draw_plots(
        _arrange_taus(rows),
        bars=False,
        axis="Stuart's τ-c",
        limit=tau_limit,
        name=f"subtler-tau-{suffix}",
        title=f"τ-c: {subject}",
        caption=TAUS_NOTE + HOLLOW_NOTE,
    )
    return {"gaps": gaps, "taus": taus}


def _arrange_gaps(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.assign(block=rows["domain"])
    counts = {
        domain: _format_n(domain_rows["n"]) for domain, domain_rows in rows.groupby("block", sort=False)
    }
    gap_tables = [
        rows.assign(name=gap, value=rows[gap], low=rows[f"{gap}_low"], high=rows[f"{gap}_high"])
        for gap in GAPS
    ]
    gaps = pd.concat(gap_tables, ignore_index=True)
    gaps = gaps.assign(text=gaps["value"].map(_format_signed), note=gaps["block"].map(counts))
    return _sort_rows(gaps, GAPS)


def _arrange_taus(rows: pd.DataFrame) -> pd.DataFrame:
    entries = rows.to_dict("records")
    texts = [f"{format_number(row['tau_c'])}, {row['n']:.0f} ({row['n_unmatched']:.0f})" for row in entries]
    names = {"tau_c": "value", "tau_c_low": "low", "tau_c_high": "high", "domain": "block", "gender": "name"}
    taus = rows.rename(columns=names).assign(text=texts, note="τ-c, n (unmatched)")
    ordered = _sort_rows(taus, GENDERS)
    return ordered.assign(name=ordered["name"].str.replace("_", " "))


def _sort_rows(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Sort rows by block, in order of occurrence with `all` last, and by name: first `names`, then others."""
    blocks = [block for block in dict.fromkeys(rows["block"]) if block != ALL]
    return sort_by(rows, block=[*blocks, ALL], name=[*dict.fromkeys([*names, *rows["name"]])])


def _format_n(sizes: pd.Series) -> str:
    low, high = sizes.min(), sizes.max()
    return f"n = {low:,.0f}" + (f" to {high:,.0f}" if high > low else "")


def _format_signed(value: float) -> str:
    text = format_number(value, 1)
    return f"+{text}" if value > 0 and float(text) else text


def _draw_plots(
    rows: pd.DataFrame, *, bars: bool, axis: str, limit: float, name: str, title: str, caption: str
) -> list[Drawing]:
    """Draw values with intervals on an axis from -limit to limit, at most `MAX_SERIES` series per figure.

    The rows have the columns of `forest_plot` without `alt_text` and `filled`; `low` and `high` are NaN
    without an interval.
    """
    rows = sort_by(rows, block=(), name=(), series=())
    series = [*dict.fromkeys(rows["series"])]
    entries = rows.to_dict("records")
    alt_texts = [f"{row['series']} {row['name']} {row['text']} {_format_interval(row)}" for row in entries]
    rows = rows.assign(alt_text=alt_texts, filled=(rows["low"] > 0) | (rows["high"] < 0))
    plots = []
    for names, file, heading in split_into_figures(series, MAX_SERIES, name, title):
        series_rows = rows[rows["series"].isin(names)]
        figure, axes, placed = draw_forest_plot(
            # The name is written only next to its first series.
            series_rows.assign(name=series_rows["name"].mask(series_rows.duplicated(["block", "name"]), "")),
            title=heading,
            label=axis,
            series=series,
            hollow="interval contains 0",
            bars=bars,
            limits=(-limit, limit),
        )
        for row in placed[placed["low"].isna()].to_dict("records"):
            # The text is on the opposite side of zero, where it overlaps neither bar nor point.
            side = -1 if row["value"] > 0 else 1
            text_style: dict[str, Any] = {"ha": "right" if side < 0 else "left", "color": "#555555"}
            position = side * 0.06 * limit, row["y"]
            axes.text(*position, NO_INTERVAL, fontsize=7, style="italic", va="center", **text_style)
        kind = "Bar chart" if bars else "Dot plot"
        alt_text = f"{kind} of {axis}, with 95% intervals. {heading}. {describe_rows(placed)}."
        plots.append(Drawing(file, figure, heading, alt_text, caption))
    return plots


def _find_limit(values: pd.DataFrame, min_limit: float) -> float:
    """Return the end of an axis that shows all values and intervals, at least `min_limit`."""
    return 1.06 * float(np.nanmax(values.abs().to_numpy(dtype=float), initial=min_limit))


def _format_interval(row: Mapping[Hashable, Any]) -> str:
    if pd.isna(row["low"]):
        return NO_INTERVAL
    digits = 1 if max(abs(row["low"]), abs(row["high"])) > 1 else 2
    return f"[{row['low']:.{digits}f}, {row['high']:.{digits}f}]".replace("-", "−")
