"""Figures of the audits of implicit bias (Capitani et al. 2024). No face is shown, nor named."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from src.report.drawing import PALETTE, plain
from src.report.forest_plot import PLACEBO, ROW, at_right, canvas, look, number_said

# What an audit's null is of, by the columns of analyses.csv: as axes name it, and the digits that tell.
MEASURES = {"cles_gap": "|CLES − ½|", "iat": "IAT"}
DIGITS = {"cles_gap": 3, "iat": 1}
# Pairs of groups in a figure: eight groups have 28.
PAIRS = 30
# Words across a heatmap; further sets go on a further line.
COLUMNS = 20
INTERVAL, BAND = (0.025, 0.975), (0.05, 0.5, 0.95)
COLOURS = "cividis"
FILLED, HOLLOW = look(0, filled=True), look(0, filled=False)


def heatmap(similarities: pd.DataFrame, *, title: str) -> tuple[Figure, str]:
    """Mean cosine of each group's faces with each word (Capitani et al. 2024, figure 4).

    Args:
        similarities: `id` of a face, its `group`, `set`, `word`, `cosine`: of one encoder.
        title: of the figure.

    Returns:
        The figure and its text alternative.
    """
    order = pd.MultiIndex.from_frame(similarities[["set", "word"]].drop_duplicates())
    means = similarities.groupby(["set", "word", "group"])["cosine"].mean().unstack("group").reindex(order)
    faces = similarities.groupby("group", sort=False)["id"].nunique()
    lines = _lines(means)
    letters = max(len(plain(word)) for word in means.index.get_level_values("word"))
    beside, below = (0.075 * min(40, size) for size in (max(len(str(group)) for group in means), letters))
    across = max(len(line) for line in lines)
    height = len(lines) * (0.5 + below + 0.34 * means.shape[1]) + 1.1
    figure = Figure(figsize=(max(6.2, beside + 0.6 + 0.47 * across), height), layout="constrained")
    figure.suptitle(plain(title, 60), fontsize=11)
    scale = Normalize(*np.nanquantile(means.to_numpy(dtype=float), [0, 1]))
    parts = figure.subfigures(len(lines), 1, squeeze=False, height_ratios=[1] * len(lines))[:, 0]
    for part, line in zip(parts, lines, strict=True):
        _line(part, line, scale, across)
    label = (
        f"mean cosine over the group's faces; colours span {scale.vmin:.3f} to {scale.vmax:.3f}, not 0 to 1"
    )
    mappable = ScalarMappable(scale, COLOURS)
    bar = parts[-1].colorbar(
        mappable, ax=parts[-1].axes, location="bottom", aspect=40, pad=0.08, fraction=0.1
    )
    bar.set_label(plain(label, 200).replace("-", "−"), fontsize=9)
    bar.ax.tick_params(labelsize=8.5)
    said = "; ".join(
        f"{name}: " + ", ".join(f"{group} {value:.3f}" for group, value in own.mean().items())
        for name, own in means.groupby(level="set", sort=False)
    )
    count = f"{faces.min()}" if faces.min() == faces.max() else f"{faces.min()} to {faces.max()}"
    return figure, (
        f"Heatmap of the mean cosine of each group's faces ({count} of each) with each word. {title}. "
        f"Means over a set's words: {said}."
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
    shown = shown.assign(y=[2 * ROW * number + 0.12 + ROW for number in range(len(shown))])
    names = shown["group_a"].map(str) + " – " + shown["group_b"].map(str)
    has_null, has_interval = (bool(shown[name].notna().any()) for name in ("null_high", "low"))
    more = f", the first {len(shown)} of {len(rows)} pairs" * (len(rows) > len(shown))
    figure, axes = canvas(2 * ROW * len(shown) + 0.12, title + more, _key(has_null, has_interval))
    said = []
    _points(axes, shown, of)
    for name, row in zip(names, shown.to_dict("records"), strict=True):
        across = axes.get_yaxis_transform()
        axes.text(0, row["y"] - ROW, plain(name, 56), fontsize=8.5, va="center", transform=across)
        value = number_said(row[of], DIGITS[of])
        at_right(axes, row["y"], value)
        said.append(
            f"{name} {value}" + f" (random: 95th {number_said(row['null_high'], DIGITS[of])})" * has_null
        )
    furthest = float(np.nanmax(shown[[of, "null_high", "high"]].to_numpy(dtype=float), initial=0))
    limit = (furthest if furthest > 0 else 1.0) * 1.08
    axes.set_xlim(0, min(limit, 0.5) if of == "cles_gap" else limit)
    axes.tick_params(labelsize=8.5)
    axes.set_xlabel(f"{MEASURES[of]} (0: the two groups do not differ)", fontsize=8.5)
    return figure, f"Dot plot of {MEASURES[of]} of pairs of groups. {title}{more}. " + "; ".join(said) + "."


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


def _points(axes: Axes, rows: pd.DataFrame, of: str) -> None:
    # Drawn many at a time: an artist for each would take most of the report's time.
    y, end = rows["y"], rows["null_high"]
    axes.hlines(y, rows["null_low"], end, color=PLACEBO, linewidth=5, zorder=1)
    axes.vlines(end, y - 0.06, y + 0.06, color="#666666", linewidth=1.2, zorder=2)
    axes.vlines(rows["null_median"], y - 0.045, y + 0.045, color="white", linewidth=1.2, zorder=2)
    axes.hlines(y, rows["low"], rows["high"], color=PALETTE[0], linewidth=1.6, zorder=3)
    hollow = rows[of] <= end
    for own, shape in ((rows[~hollow], FILLED), (rows[hollow], HOLLOW)):
        axes.plot(own[of], own["y"], linestyle="", markersize=5.5, zorder=4, clip_on=False, **shape)


def _key(has_null: bool, has_interval: bool) -> list[Line2D | Patch]:
    observed = "observed" + ", 95% interval" * has_interval
    points: list[Line2D | Patch] = [
        Line2D([], [], linestyle="", markersize=6, label=label, **shape)
        for label, shape in ((observed, FILLED), ("not above the 95th", HOLLOW))
    ]
    return [points[0], Patch(label="random: 5–95%"), points[1]] if has_null else points[:1]


def _lines(means: pd.DataFrame) -> list[pd.DataFrame]:
    """Sets of words, as many on a line as there is room for."""
    lines: list[list[pd.DataFrame]] = [[]]
    for _, own in means.groupby(level="set", sort=False):
        if lines[-1] and sum(map(len, lines[-1])) + len(own) > COLUMNS:
            lines.append([])
        lines[-1].append(own)
    return [pd.concat(line) for line in lines]


def _line(part: SubFigure, means: pd.DataFrame, scale: Normalize, across: int) -> None:
    sets = {str(name): own for name, own in means.groupby(level="set", sort=False)}
    widths = [len(own) for own in sets.values()]
    rest = max(0.01, across - sum(widths))
    panels = part.subplots(1, len(sets) + 1, width_ratios=[*widths, rest], squeeze=False)[0]
    panels[-1].set_visible(False)
    for axes, (name, own) in zip(panels, sets.items(), strict=False):
        _panel(axes, name, own, scale)
        if axes is not panels[0]:
            axes.set_yticks([])


def _panel(axes: Axes, name: str, means: pd.DataFrame, scale: Normalize) -> None:
    grid = means.T.to_numpy(dtype=float)
    axes.imshow(grid, cmap=COLOURS, norm=scale, aspect="auto")
    axes.set_facecolor("#dddddd")
    axes.set_title(plain(name.replace("_", " "), max(12, 6 * len(means))), fontsize=9)
    axes.set_yticks(range(len(grid)), [plain(str(group)) for group in means], fontsize=9)
    words = [plain(word) for word in means.index.get_level_values("word")]
    axes.set_xticks(range(len(words)), words, rotation=90, fontsize=9)
    for (y, x), value in np.ndenumerate(grid):
        shown = "–" if np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1).replace("-", "−")
        # Cividis is dark below its middle.
        colour = "black" if np.isnan(value) or scale(value) > 0.5 else "white"
        axes.text(x, y, shown, ha="center", va="center", fontsize=8, color=colour)
