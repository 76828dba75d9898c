"""Define the study of implicit bias."""

from collections.abc import Iterator, Mapping

import pandas as pd
from rich.console import RenderableType

from src.report.study import StudyReport
from src.report.tables import build_mean_rows, build_table, lay_out
from src.studies.implicit import experiment, figures
from src.studies.implicit.config import AuditConfig
from src.studies.implicit.model_ranking import IAT, infer_null_statistic
from src.studies.implicit.ranking_page import RANKING
from src.studies.implicit.section import build_section
from src.studies.protocol import NamedFigure, Study, StudyResult

TITLE = "|CLES − ½| or IAT, mean over pairs of groups (in brackets: random partitions)"
PROTOCOL_FIELDS = {"faces_per_group", "partitions", "ties", "bootstrap", "pooling"}
METRICS = ("cles_gap", "delta_gap", "iat", "null_mean")


def compute_metrics(result: StudyResult) -> dict[str, float]:
    """Compute means over pairs of groups, with names such as `cles_gap.competence`."""
    averages = result.analyses.groupby("attribute")[list(METRICS)].mean()
    return {
        f"{name}.{attribute}": float(averages.loc[attribute, name])
        for name in METRICS
        for attribute in averages.index
    }


def draw_figures(_: AuditConfig, columns: Mapping[str, object], result: StudyResult) -> Iterator[NamedFigure]:
    """Draw the mean cosine of each group's faces with each word."""
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    yield "similarities.png", *figures.draw_heatmap(result.tables["similarities"], title=title)


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Build a table with a row per attribute and specification, and a column per model.

    A cell has the mean over pairs of groups of the statistic that is compared with its null and, in brackets,
    its mean over random partitions.
    """
    rows = []
    for (exp, attribute), pairs in analyses.groupby(["exp", "attribute"], sort=False):
        statistic = str(infer_null_statistic(pairs).iloc[0])
        text_format = "{:.1f} ({:.1f})" if statistic == IAT else "{:.3f} ({:.3f})"
        rows.append(build_mean_rows(pairs, f"{exp}: {attribute}", statistic, "null_mean", text_format))
    return [build_table(lay_out(pd.concat(rows), "debias", "protocol", "seed"), f"{dataset}: {TITLE}")]


STUDY = Study(
    name="implicit",
    roles=lambda _: ("faces",),
    prompts=experiment.build_prompts,
    check=experiment.sample_faces,
    run=experiment.run,
    protocol_fields=lambda exp, _: frozenset(PROTOCOL_FIELDS | ({"iat"} if exp.pairs else set())),
    metrics=compute_metrics,
    figures=draw_figures,
    report=StudyReport(section=build_section, terminal=build_terminal_tables, ranking=RANKING),
)
