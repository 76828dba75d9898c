"""Define the study of harmful classes."""

from collections.abc import Iterator, Mapping

import pandas as pd
from rich.console import RenderableType

from src.report.forest_plot import format_digits
from src.report.study import StudyReport
from src.report.tables import build_table, lay_out
from src.studies.harms import experiment
from src.studies.harms.config import HarmsConfig
from src.studies.harms.figures import draw_shares, label_experiments, label_outcome
from src.studies.harms.outcomes import ALL_GROUPS
from src.studies.harms.section import build_section, draw_conclusions
from src.studies.protocol import NamedFigure, Study, StudyResult

TITLE = "share of faces classified so (largest minus smallest group; 95th percentile with groups permuted)"


def compute_metrics(result: StudyResult) -> dict[str, float]:
    """Return the share of each group and of all, and the largest difference, such as `crime.share`."""
    values: dict[str, float] = {}
    for row in result.analyses.to_dict("records"):
        name = f"{row['kind']}.{row['measure']}"
        if row["group"] == ALL_GROUPS:
            values |= {name: row["share"], f"{name}.difference": row["difference"]}
        else:
            values[f"{name}.{row['group']}"] = row["share"]
    return {name: float(value) for name, value in values.items()}


def draw_figures(_: HarmsConfig, columns: Mapping[str, object], result: StudyResult) -> Iterator[NamedFigure]:
    """Draw the shares of kinds of classes, and the accuracies, by group."""
    model = str(columns["model"])
    rows = result.analyses.assign(model=model)
    title = f"{model}, {columns['exp']} ({columns['dataset']})"
    for are_harms in (True, False):
        drawing = draw_shares(rows, title=title, models=[model], are_harms=are_harms)
        yield f"{drawing.name}.png", drawing.figure, drawing.alt_text


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table with a row per outcome, of the share of all faces and the largest difference."""
    if analyses.empty:
        return []
    analyses = analyses.assign(label=label_experiments(analyses))
    totals = analyses[analyses["group"] == ALL_GROUPS]
    records = totals.to_dict("records")
    labels = [f"{row['label']}: {label_outcome(row['kind'], row['measure'])}" for row in records]
    texts = [
        f"{format_digits(row['share'])} ({format_digits(row['difference'])}; "
        f"{format_digits(row['difference_q95'])})"
        for row in records
    ]
    rows = totals.assign(label=labels, text=texts)
    return [build_table(lay_out(rows, "debias", "protocol", "seed"), f"{dataset}: {TITLE}")]


STUDY = Study(
    name="harms",
    roles=lambda _: ("faces",),
    prompts=experiment.build_prompts,
    check=experiment.check,
    run=experiment.run,
    protocol_fields=lambda *_: frozenset({"permutations", "article", "pooling"}),
    metrics=compute_metrics,
    figures=draw_figures,
    config_groups=lambda _: frozenset({"classes"}),
    report=StudyReport(section=build_section, terminal=build_terminal_tables, conclusions=draw_conclusions),
)
