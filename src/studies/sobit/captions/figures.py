"""The audit of captions for people: a table for the terminal, and figures. No caption is shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from src.report.drawing import PALETTE, Drawing, plain
from src.studies.sobit.captions.lexicon import BOTH, GENDER, RACE

LEVEL = 0.05
# Words of a panel on either side; of a cell of the terminal.
MOST, FEW = 8, 3
MORE, LESS = PALETTE[1], PALETTE[0]
BAND = "#d0d0d0"
NAMES = {RACE: "race", GENDER: "gender", BOTH: "race and gender"}
COLUMNS, WIDTH, ROW, HEAD = 2, 7.4, 0.17, 0.75
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
KEY = (
    f"In brackets: captions that say both. Only words with q < {LEVEL:g}. Line: 95% interval.\n"
    "Grey: where 95% of ratios lie if naming the group has nothing to do with the word."
)
READ = (
    f"Up to {MOST} words on either side whose q is below {LEVEL:g}, the surest first (by the end of their "
    "interval that is nearer to 1). Point: share of the captions with the word that name the group, over "
    "that of all captions; line: its 95% interval; grey: where 95% of ratios lie if naming the group has "
    "nothing to do with the word. An arrow: no caption says both, or hardly any. The words are chosen for "
    "being extreme: expect less of them in other captions."
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
    groups = [*dict.fromkeys(ratios["group"])]
    picked = [
        pd.concat([over, under[::-1]])
        for over, under in (extremes(ratios[ratios["group"] == group], MOST) for group in groups)
    ]
    lines = -(-len(groups) // COLUMNS)
    tallest = max([4, *map(len, picked)])
    figure = Figure(
        figsize=(WIDTH, lines * (HEAD + ROW * tallest) + 0.6), layout=ConstrainedLayoutEngine(h_pad=0.1)
    )
    panels = figure.subplots(lines, COLUMNS, squeeze=False, sharex=True).ravel()
    reach = _reach(picked)
    for panel, group, rows in zip(panels, groups, picked, strict=False):
        _panel(panel, rows, tallest, reach)
        panel.set_title(plain(group, 40), fontsize=9.5)
    for panel in panels[len(groups) :]:
        panel.set_axis_off()
    # Of a column that ends early the last panel still needs its ticks.
    for panel in panels[max(0, len(groups) - COLUMNS) : len(groups)]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel("ratio to the group's share of all captions (log)", fontsize=8)
    title = f"Words that captions mention more and less often with a group: {NAMES[axis]}"
    figure.suptitle(title, fontsize=10.5)
    figure.supxlabel(KEY, fontsize=7.5, x=0.01, ha="left")
    words = [f"{group}: {_told(rows)}" for group, rows in zip(groups, picked, strict=True)]
    return Drawing(f"ratios-{axis}", figure, title, f"{title}. {' '.join(words)}", READ)


def _reach(picked: list[pd.DataFrame]) -> tuple[float, float]:
    every = pd.concat(picked)
    low, high = every["ratio_low"], every["ratio_high"]
    least = np.nanmin([0.5, low[low > 0].min()]) / 1.15
    return max(FLOOR, float(least)), float(np.nanmax([2, high.max()])) * 1.15


def _panel(panel: Axes, rows: pd.DataFrame, places: int, reach: tuple[float, float]) -> None:
    panel.set_xscale("log", base=2)
    panel.set_xlim(*reach)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
    panel.tick_params(labelsize=8)
    panel.axvline(1, color="#888888", linewidth=0.8, zorder=0)
    for side in ("left", "right", "top"):
        panel.spines[side].set_visible(False)
    y = np.arange(len(rows))
    labels = zip(rows["word"], rows["n_both"], strict=True)
    panel.set_yticks(y, [f"{plain(word, 28)} ({both:,})" for word, both in labels], fontsize=8)
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(places - 0.4, -0.6)
    if not len(rows):
        panel.text(1, places / 2, "no word is sure", ha="center", fontsize=8, backgroundcolor="white")
        return
    band = rows[["placebo_low", "placebo_high"]].clip(*reach).to_numpy()
    panel.hlines(y, band[:, 0], band[:, 1], color=BAND, linewidth=6, zorder=1)
    colour = np.where(rows["ratio"] > 1, MORE, LESS)
    panel.hlines(y, rows["ratio_low"].clip(*reach), rows["ratio_high"], color=colour, linewidth=1.6, zorder=2)
    for marker, below in (("o", rows["ratio"] >= reach[0]), ("<", rows["ratio"] < reach[0])):
        here = below.to_numpy()
        panel.scatter(
            rows["ratio"].clip(*reach)[here],
            y[here],
            s=22,
            c=colour[here],
            marker=marker,
            zorder=3,
            clip_on=False,
        )


def _told(rows: pd.DataFrame) -> str:
    if not len(rows):
        return "no word is sure."
    over, under = rows[rows["ratio"] > 1], rows[rows["ratio"] < 1]
    parts = [
        f"{what} {', '.join(said(row) for _, row in part.iterrows())}"
        for what, part in (("more often", over), ("less often", under))
        if len(part)
    ]
    return "; ".join(parts) + "."
