"""Draw the figures of audits of implicit bias (Capitani et al. 2024), without faces or their ids."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from src.report import heatmap as report_heatmap
from src.report.drawing import Drawing, clean, shorten, style_of
from src.report.forest_plot import (
    build_legend_handles,
    draw_forest_plot,
    draw_marks,
    format_digits,
    make_figure,
)
from src.studies.implicit import model_ranking

# Axis label and decimal digits of the statistics that are compared with a null, by column of analyses.csv.
LABELS = {"cles_gap": "|CLES − ½|", "iat": "IAT"}
DIGITS = {"cles_gap": 3, "iat": 1}
# Maximum number of pairs of groups in a figure: eight groups have 28.
MAX_PAIRS = 30
# Maximum number of word columns side by side in a heatmap; further sets continue below.
MAX_COLUMNS = 20
# Maximum number of models whose bubbles are numbered; with more, only the tables identify them.
MAX_NUMBERED = 20
# Bubble chart: height in inches, diameter of the largest bubble in points, maximum letters of a model's name.
CHART_HEIGHT, MAX_BUBBLE, MAX_LETTERS = 3.6, 34, 20
BUBBLE_TITLE, BUBBLE_MEASURES, MEAN_GAP = (
    "Implicit bias of models",
    ("competence", "emotions"),
    "mean |CLES − ½|",
)
BOOTSTRAP_QUANTILES, NULL_QUANTILES = (0.025, 0.975), (0.05, 0.5, 0.95)


def draw_heatmap(similarities: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Draw the mean cosine of each group's faces with each word (Capitani et al. 2024, figure 4).

    `similarities` are rows of a model's similarities.parquet. Returns the figure and its alt text.
    """
    set_words = similarities[["set", "word"]].drop_duplicates()
    face_counts = similarities.groupby("group", sort=False)["id"].nunique()
    means = similarities.groupby(["group", "set", "word"])["cosine"].mean()
    grids = {
        str(name).replace("_", " "): means.xs(name, level="set").unstack("word").reindex(columns=[*words])
        for name, words in set_words.groupby("set", sort=False)["word"]
    }
    low, high = means.min(), means.max()
    norm = Normalize(low, high)
    label = f"mean cosine over the group's faces; colours span {low:.3f} to {high:.3f}, not 0 to 1"
    colour_bar = {
        "label": label.replace("-", "−"),
        "location": "bottom",
        "aspect": 40,
        "pad": 0.08,
        "fraction": 0.1,
    }
    # Cividis is dark below its middle.
    scale = report_heatmap.Scale(
        "cividis", norm, dark=lambda cosine: norm(cosine) <= 0.5, digits=3, bar=colour_bar
    )
    column_count = min(MAX_COLUMNS, len(set_words))
    figure = report_heatmap.draw_heatmap(grids, scale, title=title, columns=column_count)
    descriptions = "; ".join(
        f"{name}: " + ", ".join(f"{group} {value:.3f}" for group, value in grid.mean(axis=1).items())
        for name, grid in grids.items()
    )
    min_faces, max_faces = face_counts.min(), face_counts.max()
    faces_text = f"{min_faces}" if min_faces == max_faces else f"{min_faces} to {max_faces}"
    return figure, (
        f"Heatmap of the mean cosine of each group's faces ({faces_text} of each) with each word. {title}. "
        f"Means over a set's words: {descriptions}."
    )


def plot_against_null(
    draws: pd.DataFrame, analyses: pd.DataFrame, *, title: str, statistic: str = "cles_gap"
) -> tuple[Figure, str]:
    """Draw each pair of groups against random partitions of its faces (Capitani et al. 2024, figure 2).

    `draws` are a job's draws.parquet, perhaps without null or bootstrap; `analyses` are the job's rows of one
    attribute; `statistic` is the column that is compared with the null. Returns the figure and its
    alt text.
    """
    rows = _add_bands(draws, analyses, statistic).sort_values(statistic, ascending=False, kind="stable")
    pairs = rows.head(MAX_PAIRS)
    note = f", the largest {len(pairs)} of {len(rows)} pairs" * (len(rows) > len(pairs))
    has_null, has_interval = (bool(pairs[name].notna().any()) for name in ("null_high", "low"))
    digits = DIGITS[statistic]
    pairs = pairs.assign(
        block=pairs["group_a"].map(str) + " – " + pairs["group_b"].map(str),
        series="observed" + ", 95% interval" * has_interval,
        value=pairs[statistic],
        band_low=pairs["null_low"],
        band_high=pairs["null_high"],
        filled=~(pairs[statistic] <= pairs["null_high"]),
        text=[format_digits(value, digits) for value in pairs[statistic]],
    )
    figure, axes, placed = draw_forest_plot(
        pairs,
        title=title + note,
        label=f"{LABELS[statistic]} (0: the two groups do not differ)",
        band="random: 5–95%",
        hollow="not above the 95th",
        limits=(0, None),
    )
    draw_marks(axes, placed["null_high"], placed["y"])
    draw_marks(axes, placed["null_median"], placed["y"], color="white")
    texts = [
        f"{row['block']} {row['text']}"
        + f" (random: 95th {format_digits(row['null_high'], digits)})" * has_null
        for row in placed.to_dict("records")
    ]
    return figure, f"Dot plot of {LABELS[statistic]} of pairs of groups. {title}{note}. {'; '.join(texts)}."


def _add_bands(draws: pd.DataFrame, analyses: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Add to each row the null's band and the bootstrap's interval; NaN where their draws are missing."""
    keys = ["attribute", "group_a", "group_b"]
    rows = analyses[[*keys, statistic]]
    for kind, quantiles, names in (
        ("null", NULL_QUANTILES, ("null_low", "null_median", "null_high")),
        ("bootstrap", BOOTSTRAP_QUANTILES, ("low", "high")),
    ):
        kind_draws = draws[draws["kind"] == kind]
        if kind_draws.empty:  # then even the columns may be missing
            rows = rows.assign(**dict.fromkeys(names, np.nan))
            continue
        bounds = kind_draws.groupby(keys, sort=False)[statistic].quantile(np.array(quantiles)).unstack()
        bounds = bounds.reindex(columns=list(quantiles)).set_axis(list(names), axis=1)
        rows = rows.merge(bounds.reset_index(), on=keys, how="left")
    return rows


def draw_bubbles(models: pd.DataFrame) -> Drawing | None:
    """Draw competence (x), emotions (y), IAT (bubble area), and pretraining set (colour and shape).

    `models` are rows of `model_ranking.compute_measures`, with `pretraining`. Models that lack a measure are
    left out; returns None if all do.
    """
    rows = model_ranking.rank_models(models[model_ranking.has_measures(models)])
    if rows.empty:
        return None
    set_styles = {name: style_of(index) for index, name in enumerate(dict.fromkeys(rows["pretraining"]))}
    max_iat, is_numbered = float(rows["iat"].max()), len(rows) <= MAX_NUMBERED
    figure, axes = make_figure(
        CHART_HEIGHT, BUBBLE_TITLE, _build_bubble_legend(rows, [*set_styles], is_numbered)
    )
    for number, row in enumerate(rows.to_dict("records"), 1):
        x, y, set_style = row["competence"], row["emotions"], set_styles[row["pretraining"]]
        # The area of the ring is the measure; the shape at its centre, of constant size, is the set.
        size = MAX_BUBBLE * np.sqrt(row["iat"] / max_iat) if max_iat > 0 else 0
        axes.plot([x], [y], "o", markersize=size, color=set_style["color"], alpha=0.25, markeredgewidth=0)
        axes.plot([x], [y], markersize=5, markeredgecolor="#333333", markeredgewidth=0.4, **set_style)
        if is_numbered:
            axes.annotate(f"{number}", (x, y), (4, 3), textcoords="offset points", fontsize=8.5)
    # Limits leave a margin, and are positive even if all values are 0.
    x_limit, y_limit = (float(rows[name].max()) * 1.18 or 0.5 for name in BUBBLE_MEASURES)
    axes.set(xlim=(0, x_limit), ylim=(0, y_limit))
    axes.set(xlabel=f"{BUBBLE_MEASURES[0]}: {MEAN_GAP}", ylabel=f"{BUBBLE_MEASURES[1]}: {MEAN_GAP}")
    axes.spines["left"].set_visible(True)
    axes.grid(alpha=0.25)
    texts = "; ".join(
        f"{row['model']} ({row['pretraining']}): "
        f"{row['competence']:.3f}, {row['emotions']:.3f}, {row['iat']:.1f}"
        for row in rows.to_dict("records")
    )
    alt_text = f"Bubble chart. {BUBBLE_TITLE}: competence, emotions (mean |CLES − ½|) and IAT. {texts}."
    caption = _write_bubble_caption(rows, len(models) - len(rows), is_numbered)
    return Drawing("bubbles", figure, BUBBLE_TITLE, alt_text, caption)


def _build_bubble_legend(rows: pd.DataFrame, set_names: Sequence[str], is_numbered: bool) -> list[Line2D]:
    area_label = f"area: IAT, 0 to {rows['iat'].max():.1f}"
    ring_style: dict[str, Any] = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": "#444444"}
    entries = [
        *build_legend_handles(set_names),
        Line2D([], [], linestyle="", markersize=8, label=area_label, **ring_style),
    ]
    names = [
        f"{number} {shorten(name, MAX_LETTERS)}" for number, name in enumerate(rows["model"].map(str), 1)
    ]
    return entries + [Line2D([], [], linestyle="", label=clean(name)) for name in names if is_numbered]


def _write_bubble_caption(rows: pd.DataFrame, omitted: int, is_numbered: bool) -> str:
    caption = (
        "Both axes begin at 0, where no two groups differ; each measure is a mean over pairs of groups. The "
        f"area of a bubble is the model's IAT, {rows['iat'].min():.1f} to {rows['iat'].max():.1f}."
    )
    if is_numbered:
        caption += " Numbers give the order in the ranking."
    if omitted:
        caption += f" {omitted} of {len(rows) + omitted} models lack a measure and are not drawn."
    return caption
