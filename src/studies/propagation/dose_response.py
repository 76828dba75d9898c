"""Report what remains of the level without what is measured (docs/methods.md, section 6.17)."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from src.report.drawing import COLUMN, Drawing, clean, shorten, style_of
from src.report.findings import Findings
from src.report.forest_plot import format_digits, legend_handles
from src.report.format import to_records
from src.studies.propagation.combined import main_analyses
from src.studies.propagation.intervention import LEACE, MEASURED, RANDOM

SIGNIFICANT = 0.05
JOB = ["exp", "paper", "model", "config"]
ACROSS = 2  # panels in a line
# Inches: height of a panel, and of a line of the legend.
PANEL, LINE = 1.5, 0.175
# On the axis of doses: middle of the controls, and the width over which models are spread.
PLACES, SPREAD = {RANDOM: 1.4, LEACE: 2.0}, 0.3
CAPTION = (
    "Share of the level that remains, against the share of the measure that is removed from the targets' "
    "vectors. On the dashed line, what is measured carries all of the level. Random: subspaces of equal "
    "variance in place of the measured one, 5th to 95th percentile and median. LEACE: all that is linearly "
    "known of the targets' group or rating is removed."
)


def summaries(findings: Findings) -> pd.DataFrame:
    """Return the summary of each intervention under the first specification, with the names of its job."""
    return _of_jobs(findings, "intervention_summary")


def curves(findings: Findings) -> pd.DataFrame:
    """Return the rows of each intervention under the first specification, with the names of its job."""
    return _of_jobs(findings, "intervention")


def _of_jobs(findings: Findings, name: str) -> pd.DataFrame:
    jobs = to_records(main_analyses(findings).reindex(columns=JOB).drop_duplicates("config"))
    tables = [
        findings.read(job["config"], name).assign(**job) for job in jobs if findings.has(job["config"], name)
    ]
    if not tables:
        return pd.DataFrame(columns=[*JOB, "left"])
    table = pd.concat(tables, ignore_index=True)
    return table[[*JOB, *(column for column in table if column not in JOB)]]


def conclusion(summaries: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence about what remains in the jobs of `summaries`; none without an intervention."""
    rows = summaries[summaries["left"].notna()]
    if rows.empty:
        return
    first, controls, tested = rows.iloc[0], rows["left_random_median"].dropna(), rows["left_p"].dropna()
    left = _percent(rows["left"].median())
    if len(rows) == 1:
        scope = f"in {first['exp']} of {shorten(str(first['model']))}"
        if pd.notna(first["left_low"]):
            left += f" [{_percent(first['left_low'])}, {_percent(first['left_high'])}]"
    else:
        ends = [_percent(end) for end in (rows["left"].min(), rows["left"].max())]
        scope = f"(median of {len(rows)} jobs, {ends[0]} to {ends[1]})"
    sentence = f"Without what is measured, {left} of the level remains {scope}"
    if len(controls):
        sentence += f"; without random subspaces of equal variance, {_percent(controls.median())}"
    if len(tested):
        count = f"{int((tested <= SIGNIFICANT).sum()):,} of {len(tested):,}"
        sentence += f"; less than without these (p ≤ .05) in {count}"
    yield f"{sentence}. What remains ranks experiments; it is not the size of another path."


def _percent(share: float) -> str:
    return f"{100 * share:z.0f}%".replace("-", "−")


def figure(curves: pd.DataFrame, models: Sequence[str]) -> Drawing | None:
    """Plot what remains at each dose, a panel per experiment and a line per model; None without curves.

    The place of a model in `models` decides its colour and shape.
    """
    rows = curves[curves["model"].isin(models)]
    experiments = [*dict.fromkeys(rows["exp"])]
    if not experiments:
        return None
    lines = -(-len(experiments) // ACROSS)
    handles = legend_handles(models)
    height = 0.6 + LINE * -(-len(handles) // 2) + PANEL * lines
    plot = Figure(figsize=(COLUMN, height), layout="constrained")
    title = "What remains of the level without what is measured"
    options: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "frameon": False, "ncols": 2}
    plot.legend(handles=handles, title=clean(title, 60), fontsize=7.5, title_fontsize=8.5, **options)
    panels = plot.subplots(lines, ACROSS, sharex=True, sharey=True, squeeze=False).reshape(-1)
    texts = []
    for axes, exp in zip(panels, experiments, strict=False):
        axes.set_title(clean(exp.replace("_", " "), 30), fontsize=8)
        texts.append(f"{exp}: " + ", ".join(_draw(axes, rows[rows["exp"] == exp], models)))
    for axes in panels[len(experiments) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(experiments) - ACROSS) : len(experiments)]:
        axes.tick_params(axis="x", labelbottom=True)
    plot.supylabel("share of the level that remains", fontsize=8)
    plot.supxlabel("share of the measure that is removed", fontsize=8)
    return Drawing("intervention", plot, title, f"Line plots. {title}. {'; '.join(texts)}.", CAPTION)


def _draw(axes: Axes, rows: pd.DataFrame, models: Sequence[str]) -> Iterator[str]:
    """Draw the models of an experiment; yield what remains of each in words."""
    axes.plot([0, 1], [1, 0], color="#888888", linewidth=0.8, linestyle="--", zorder=0)
    axes.axhline(0, color="#888888", linewidth=0.7, zorder=0)
    for number, model in enumerate(models):
        kinds = dict(iter(rows[rows["model"] == model].groupby("kind")))
        if MEASURED not in kinds:
            continue
        look = style_of(number)
        measured = kinds[MEASURED].sort_values("alpha")
        axes.plot(1 - measured["measured"], measured["level"], linewidth=1.1, markersize=3, **look)
        shift = SPREAD * ((number + 0.5) / len(models) - 0.5)
        words = f"{model} {format_digits(measured['level'].iloc[-1])}"
        if RANDOM in kinds:
            low, median, high = np.quantile(kinds[RANDOM]["level"], [0.05, 0.5, 0.95])
            axes.vlines(PLACES[RANDOM] + shift, low, high, color=look["color"], linewidth=1.1)
            axes.plot(PLACES[RANDOM] + shift, median, markersize=3, **look)
            words += f" (random {format_digits(median)})"
        axes.plot(PLACES[LEACE] + shift, kinds[LEACE]["level"], markersize=3, **look)
        yield words
    axes.set_xticks([0, 0.5, 1, *PLACES.values()], ["0", ".5", "1", "random", "LEACE"], fontsize=6.5)
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
