"""The audit of captions for people: a table for the terminal, and figures. No caption is shown."""

from __future__ import annotations

import numpy as np
import pandas as pd

from src.report.drawing import PALETTE, Drawing
from src.report.forest_plot import forest_plot, in_words
from src.studies.sobit.captions.lexicon import BOTH, GENDER, RACE

LEVEL = 0.05
# Words of a group on either side; of a cell of the terminal.
MOST, FEW = 8, 3
LESS, MORE = "less often", "more often"
NOBODY = "no word is sure"
NAMES = {RACE: "race", GENDER: "gender", BOTH: "race and gender"}
# A ratio of 0 has no place on its axis.
FLOOR = 2.0**-6
LIMITS = (
    "Words are counted, not what they mean: a white shirt counts as White, a king bed as Men, and an "
    "American is whatever the labels file takes an American for.",
    "A caption that says a word and names a group need not say it of that group: of a Black man beside a "
    "white woman all four pairs of race and gender count.",
    "Most captions name no group; ratio_named compares within those that do.",
    "Intervals and p take captions as independent: copies of a caption make them too small.",
)
LABEL = (
    "ratio to the group's share of all captions (log)\n"
    f"with 95% interval; only words with q < {LEVEL:g}\n"
    "at the right: captions that say both"
)


def extremes(rows: pd.DataFrame, most: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The words of one group that stand with it more, and less, often than chance, the surest first.

    Args:
        rows: of ratios.csv, of one axis and group.
        most: words on either side.

    Returns:
        Rows whose q is below 0.05 and whose interval lies above 1; and those below.
    """
    sure = rows.drop_duplicates(["word", "type"])
    sure = sure[sure["q"] < LEVEL]
    over = sure[sure["ratio_low"] > 1].sort_values("ratio_low", ascending=False, kind="stable")
    under = sure[sure["ratio_high"] < 1].sort_values("ratio_high", kind="stable")
    return over.head(most), under.head(most)


def said(row: pd.Series) -> str:
    """A word with its ratio and interval, and how many captions say it."""
    reach = f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
    return f"{row['word']} {row['ratio']:.2f} ({reach}; n {row['n_word']:,})"


def overview(ratios: pd.DataFrame) -> pd.DataFrame:
    """One row of texts per group: its captions, and the words that stand with it most and least."""
    rows = []
    for (axis, group), own in ratios.groupby(["axis", "group"], sort=False):
        over, under = extremes(own, FEW)
        named, every = own["n_group"].iloc[0], own["captions"].iloc[0]
        rows.append(
            {
                "axis": str(axis),
                "group": str(group),
                "captions": f"{named:,} ({named / every:.2%})",
                "more often": "\n".join(said(row) for _, row in over.iterrows()) or "none",
                "less often": "\n".join(said(row) for _, row in under.iterrows()) or "none",
            }
        )
    return pd.DataFrame(rows)


def correlations(found: pd.DataFrame) -> pd.DataFrame:
    """correlations.csv as texts for the terminal."""
    shown = found[["axis", "group"]].assign(words=found["n"])
    pairs = zip(found["rho"], found["rho_low"], found["rho_high"], strict=True)
    shown["ρ (95%)"] = [
        f"{rho:.2f} ({low:.2f} to {high:.2f})" if rho == rho else "" for rho, low, high in pairs
    ]
    shown["placebo 95th"] = [f"{value:.2f}" if value == value else "" for value in found["placebo_q95"]]
    shown["q"] = [f"{value:.3f}" if value == value else "" for value in found["q"]]
    return shown.assign(note=found["reason"])


def drawings(ratios: pd.DataFrame) -> list[Drawing]:
    """A figure per axis: the most over- and under-represented words of each group."""
    return [_figure(own, str(axis)) for axis, own in ratios.groupby("axis", sort=False)]


def _figure(ratios: pd.DataFrame, axis: str) -> Drawing:
    title = f"Words said more and less often: {NAMES[axis]}"
    rows = pd.concat(
        [_rows(own).assign(block=str(group)) for group, own in ratios.groupby("group", sort=False)]
    )
    low, high = rows["ratio_low"], rows["ratio_high"]
    start = max(FLOOR, float(np.nanmin([0.5, low[low > 0].min()])) / 1.15)
    end = float(np.nanmax([2, high.max()])) * 1.15
    figure, axes, placed = forest_plot(
        rows.assign(
            note="",
            value=rows["ratio"].where(rows["ratio"] >= start),
            low=low.clip(start, end),
            high=high,
            band_low=rows["placebo_low"].clip(start, end),
            band_high=rows["placebo_high"].clip(start, end),
        ),
        title=title,
        label=LABEL,
        series=(LESS, MORE),
        band="95% of ratios by chance",
        zero=1,
        limits=(start, end),
    )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
    # An arrow: no caption says both, or hardly any.
    y = placed.loc[placed["ratio"] < start, "y"]
    axes.plot([start] * len(y), y, "<", color=PALETTE[0], markersize=5, clip_on=False, zorder=4)
    return Drawing(f"ratios-{axis}", figure, title, f"{title}. {in_words(placed)}.")


def _rows(ratios: pd.DataFrame) -> pd.DataFrame:
    """Return what the figure shows of a group."""
    over, under = extremes(ratios, MOST)
    rows = pd.concat([over, under[::-1]])
    if rows.empty:
        nobody = {"name": NOBODY, "words": NOBODY, "series": "", "text": ""}
        return rows.reindex([0]).assign(**nobody)
    series = np.where(rows["ratio"] > 1, MORE, LESS)
    words = [f"{side} {said(row)}" for side, (_, row) in zip(series, rows.iterrows(), strict=True)]
    text = rows["n_both"].map("{:,}".format)
    return rows.assign(name=rows["word"].map(str), series=series, text=text, words=words)
