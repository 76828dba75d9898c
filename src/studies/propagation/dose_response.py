"""Report how much of the level remains after an intervention (docs/methods.md, section 6.17)."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from src.report.drawing import COLUMN_WIDTH, Drawing, clean, shorten, style_of
from src.report.findings import Findings
from src.report.forest_plot import build_legend_handles, format_digits
from src.report.format import to_records
from src.studies.propagation.combined import select_main_analyses
from src.studies.propagation.intervention import LEACE, MEASURED, RANDOM

SIGNIFICANT = 0.05
JOB_COLUMNS = ["exp", "paper", "model", "config"]
PANELS_ACROSS = 2  # number of panels in a row
PANEL_HEIGHT, LEGEND_LINE_HEIGHT = 1.5, 0.175  # inches
# Positions of the controls on the axis of doses, and the width over which the models are spread there.
CONTROL_POSITIONS, CONTROL_WIDTH = {RANDOM: 1.4, LEACE: 2.0}, 0.3
CAPTION = (
    "Share of the level that remains, against the share of the measure that is removed from the targets' "
    "vectors. On the dashed line, the measured directions carry all of the level. Random: random subspaces "
    "of equal variance are removed instead; 5th to 95th percentile and median. LEACE: all linear information "
    "on the targets' group or rating is removed."
)


def read_summaries(findings: Findings) -> pd.DataFrame:
    """Read the summary of each intervention under the first specification, with `JOB_COLUMNS`."""
    return _read_tables(findings, "intervention_summary")


def read_doses(findings: Findings) -> pd.DataFrame:
    """Read the removals of each intervention under the first specification, with `JOB_COLUMNS`."""
    return _read_tables(findings, "intervention")


def _read_tables(findings: Findings, name: str) -> pd.DataFrame:
    """Concatenate a table of all jobs that have it; `JOB_COLUMNS` come first."""
    jobs = to_records(select_main_analyses(findings).reindex(columns=JOB_COLUMNS).drop_duplicates("config"))
    tables = [
        findings.read(job["config"], name).assign(**job) for job in jobs if findings.has(job["config"], name)
    ]
    if not tables:
        return pd.DataFrame(columns=[*JOB_COLUMNS, "left"])
    table = pd.concat(tables, ignore_index=True)
    return table[[*JOB_COLUMNS, *(column for column in table if column not in JOB_COLUMNS)]]


def state_conclusion(summaries: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the remaining share of the level; nothing without an intervention.

    `summaries` is the result of `read_summaries`.
    """
    rows = summaries[summaries["left"].notna()]
    if rows.empty:
        return
    first, controls, tested = rows.iloc[0], rows["left_random_median"].dropna(), rows["left_p"].dropna()
    left = _format_percent(rows["left"].median())
    if len(rows) == 1:
        scope = f"in {first['exp']} of {shorten(str(first['model']))}"
        if pd.notna(first["left_low"]):
            left += f" [{_format_percent(first['left_low'])}, {_format_percent(first['left_high'])}]"
    else:
        ends = [_format_percent(end) for end in (rows["left"].min(), rows["left"].max())]
        scope = f"(median of {len(rows)} jobs, {ends[0]} to {ends[1]})"
    sentence = f"With the measured directions removed from the targets, {left} of the level remains {scope}"
    if len(controls):
        share = _format_percent(controls.median())
        sentence += f"; with random subspaces of equal variance removed instead, {share}"
    if len(tested):
        count = f"{int((tested <= SIGNIFICANT).sum()):,} of {len(tested):,}"
        sentence += f"; the former is smaller (p ≤ .05) in {count} jobs"
    yield f"{sentence}. The remaining share ranks experiments; it does not estimate other paths of the bias."


def _format_percent(share: float) -> str:
    return f"{100 * share:z.0f}%".replace("-", "−")


def plot_doses(doses: pd.DataFrame, models: Sequence[str]) -> Drawing | None:
    """Plot the remaining share of the level at each dose, a panel per experiment and a line per model.

    The position of a model in `models` determines its colour and shape. None without an intervention.
    """
    rows = doses[doses["model"].isin(models)]
    experiments = [*dict.fromkeys(rows["exp"])]
    if not experiments:
        return None
    n_rows = -(-len(experiments) // PANELS_ACROSS)
    handles = build_legend_handles(models)
    height = 0.6 + LEGEND_LINE_HEIGHT * -(-len(handles) // 2) + PANEL_HEIGHT * n_rows
    figure = Figure(figsize=(COLUMN_WIDTH, height), layout="constrained")
    title = "Level that remains without the measured directions"
    options: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "frameon": False, "ncols": 2}
    figure.legend(handles=handles, title=clean(title, 60), fontsize=7.5, title_fontsize=8.5, **options)
    panels = figure.subplots(n_rows, PANELS_ACROSS, sharex=True, sharey=True, squeeze=False).reshape(-1)
    texts = []
    for axes, exp in zip(panels, experiments, strict=False):
        axes.set_title(clean(exp.replace("_", " "), 30), fontsize=8)
        texts.append(f"{exp}: " + ", ".join(_draw_models(axes, rows[rows["exp"] == exp], models)))
    for axes in panels[len(experiments) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(experiments) - PANELS_ACROSS) : len(experiments)]:
        axes.tick_params(axis="x", labelbottom=True)
    figure.supylabel("share of the level that remains", fontsize=8)
    figure.supxlabel("share of the measure that is removed", fontsize=8)
    return Drawing("intervention", figure, title, f"Line plots. {title}. {'; '.join(texts)}.", CAPTION)


def _draw_models(axes: Axes, rows: pd.DataFrame, models: Sequence[str]) -> Iterator[str]:
    """Draw the models of an experiment; yield the alt text of each."""
    axes.plot([0, 1], [1, 0], color="#888888", linewidth=0.8, linestyle="--", zorder=0)
    axes.axhline(0, color="#888888", linewidth=0.7, zorder=0)
    for index, model in enumerate(models):
        kinds = dict(iter(rows[rows["model"] == model].groupby("kind")))
        if MEASURED not in kinds:
            continue
        style = style_of(index)
        measured = kinds[MEASURED].sort_values("alpha")
        axes.plot(1 - measured["measured"], measured["level"], linewidth=1.1, markersize=3, **style)
        shift = CONTROL_WIDTH * ((index + 0.5) / len(models) - 0.5)
        text = f"{model} {format_digits(measured['level'].iloc[-1])}"
        if RANDOM in kinds:
            low, median, high = np.quantile(kinds[RANDOM]["level"], [0.05, 0.5, 0.95])
            axes.vlines(CONTROL_POSITIONS[RANDOM] + shift, low, high, color=style["color"], linewidth=1.1)
            axes.plot(CONTROL_POSITIONS[RANDOM] + shift, median, markersize=3, **style)
            text += f" (random {format_digits(median)})"
        axes.plot(CONTROL_POSITIONS[LEACE] + shift, kinds[LEACE]["level"], markersize=3, **style)
        yield text
    axes.set_xticks(
        [0, 0.5, 1, *CONTROL_POSITIONS.values()], ["0", ".5", "1", "random", "LEACE"], fontsize=6.5
    )
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
