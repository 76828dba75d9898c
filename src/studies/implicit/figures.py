"""Figures of the audits of implicit bias (Capitani et al. 2024). No face is shown, nor named."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from src.report import heatmap as report_heatmap
from src.report.forest_plot import forest_plot, in_digits, mark

# What an audit's null is of, by the columns of analyses.csv: as axes name it, and the digits that tell.
MEASURES = {"cles_gap": "|CLES − ½|", "iat": "IAT"}
DIGITS = {"cles_gap": 3, "iat": 1}
# Pairs of groups in a figure: eight groups have 28.
PAIRS = 30
# Words across a heatmap; further sets go on a further line.
COLUMNS = 20
INTERVAL, BAND = (0.025, 0.975), (0.05, 0.5, 0.95)


def heatmap(similarities: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Mean cosine of each group's faces with each word (Capitani et al. 2024, figure 4).

    Args:
        similarities: `id` of a face, its `group`, `set`, `word`, `cosine`: of one encoder.
        title: of the figure.

    Returns:
        The figure and its text alternative.
    """
    order = similarities[["set", "word"]].drop_duplicates()
    faces = similarities.groupby("group", sort=False)["id"].nunique()
    means = similarities.groupby(["group", "set", "word"])["cosine"].mean()
    grids = {
        str(name).replace("_", " "): means.xs(name, level="set").unstack("word").reindex(columns=[*words])
        for name, words in order.groupby("set", sort=False)["word"]
    }
    low, high = means.min(), means.max()
    norm = Normalize(low, high)
    label = f"mean cosine over the group's faces; colours span {low:.3f} to {high:.3f}, not 0 to 1"
    bar = {"label": label.replace("-", "−"), "location": "bottom", "aspect": 40, "pad": 0.08, "fraction": 0.1}
    # Cividis is dark below its middle.
    scale = report_heatmap.Scale("cividis", norm, dark=lambda cosine: norm(cosine) <= 0.5, digits=3, bar=bar)
    columns = min(COLUMNS, len(order))
    figure = report_heatmap.heatmap(grids, scale, title=title, columns=columns)
    words = "; ".join(
        f"{name}: " + ", ".join(f"{group} {value:.3f}" for group, value in grid.mean(axis=1).items())
        for name, grid in grids.items()
    )
    count = f"{faces.min()}" if faces.min() == faces.max() else f"{faces.min()} to {faces.max()}"
    return figure, (
        f"Heatmap of the mean cosine of each group's faces ({count} of each) with each word. {title}. "
        f"Means over a set's words: {words}."
    )


def against_null(
    draws: pd.DataFrame, analyses: pd.DataFrame, *, title: str, of: str = "cles_gap"
) -> tuple[Figure, str]:
    """Each pair of groups against random partitions of its faces (Capitani et al. 2024, figure 2).

    Args:
        draws: a job's draws.parquet; the null or the bootstrap may have been switched off.
        analyses: rows of one attribute of its analyses.csv.
        title: of the figure.
        of: `cles_gap` or `iat`, whichever the audit's null is of.

    Returns:
        The figure and its text alternative.
    """
    rows = _worth(draws, analyses, of).sort_values(of, ascending=False, kind="stable", na_position="last")
    shown = rows.head(PAIRS)
    more = f", the first {len(shown)} of {len(rows)} pairs" * (len(rows) > len(shown))
    has_null, has_interval = (bool(shown[name].notna().any()) for name in ("null_high", "low"))
    digits = DIGITS[of]
    shown = shown.assign(
        block=shown["group_a"].map(str) + " – " + shown["group_b"].map(str),
        series="observed" + ", 95% interval" * has_interval,
        value=shown[of],
        band_low=shown["null_low"],
        band_high=shown["null_high"],
        filled=~(shown[of] <= shown["null_high"]),
        text=[in_digits(value, digits) for value in shown[of]],
    )
    figure, axes, placed = forest_plot(
        shown,
        title=title + more,
        label=f"{MEASURES[of]} (0: the two groups do not differ)",
        band="random: 5–95%",
        hollow="not above the 95th",
        limits=(0, None),
    )
    mark(axes, placed["null_high"], placed["y"])
    mark(axes, placed["null_median"], placed["y"], color="white")
    words = [
        f"{row['block']} {row['text']}" + f" (random: 95th {in_digits(row['null_high'], digits)})" * has_null
        for row in placed.to_dict("records")
    ]
    return figure, f"Dot plot of {MEASURES[of]} of pairs of groups. {title}{more}. {'; '.join(words)}."


def _worth(draws: pd.DataFrame, analyses: pd.DataFrame, of: str) -> pd.DataFrame:
    """Each row with the band of its null and the interval of its bootstrap; NaN where there is none."""
    keys = ["attribute", "group_a", "group_b"]
    found = analyses[[*keys, of]]
    for kind, quantiles, names in (
        ("null", BAND, ("null_low", "null_median", "null_high")),
        ("bootstrap", INTERVAL, ("low", "high")),
    ):
        drawn = draws[draws["kind"] == kind]
        if drawn.empty:  # switched off: perhaps not even the columns are there
            found = found.assign(**dict.fromkeys(names, np.nan))
            continue
        wide = drawn.groupby(keys, sort=False)[of].quantile(np.array(quantiles)).unstack()
        wide = wide.reindex(columns=list(quantiles)).set_axis(list(names), axis=1)
        found = found.merge(wide.reset_index(), on=keys, how="left")
    return found
