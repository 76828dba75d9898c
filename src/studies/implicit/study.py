"""Define the study of implicit bias."""

from collections.abc import Iterator, Mapping

import pandas as pd
from rich.console import RenderableType

from src.report.study import StudyReport
from src.report.tables import build_mean_rows, build_table, lay_out
from src.studies.implicit import experiment, figures
from src.studies.implicit.config import AuditConfig
from src.studies.implicit.model_ranking import IAT, null_statistic
from src.studies.implicit.ranking_page import RANKING
from src.studies.implicit.section import section
from src.studies.protocol import NamedFigure, Study, StudyResult

TITLE = "|CLES − ½| or IAT, mean over pairs of groups (of random partitions)"
PROTOCOL_FIELDS = {"faces_per_group", "partitions", "ties", "bootstrap", "pooling"}
METRICS = ("cles_gap", "delta_gap", "iat", "null_mean")


def metrics(result: StudyResult) -> dict[str, float]:
    """Return means over pairs of groups, by attribute."""
    averages = result.analyses.groupby("attribute")[list(METRICS)].mean()
    return {f"{name}.{key}": float(averages.loc[key, name]) for name in METRICS for key in averages.index}


def job_figures(_: AuditConfig, columns: Mapping[str, object], result: StudyResult) -> Iterator[NamedFigure]:
    """Draw the mean cosine of each group with each word."""
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    yield "similarities.png", *figures.heatmap(result.tables["similarities"], title=title)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table with a row per attribute and specification, a column per model.

    The text is the mean over pairs of groups of the `null_statistic`, and in brackets that of random
    partitions.
    """
    rows = []
    for (exp, attribute), pairs in analyses.groupby(["exp", "attribute"], sort=False):
        statistic = str(null_statistic(pairs).iloc[0])
        text_format = "{:.1f} ({:.1f})" if statistic == IAT else "{:.3f} ({:.3f})"
        rows.append(build_mean_rows(pairs, f"{exp}: {attribute}", statistic, "null_mean", text_format))
    return [build_table(lay_out(pd.concat(rows), "debias", "protocol", "seed"), f"{dataset}: {TITLE}")]


STUDY = Study(
    name="implicit",
    roles=lambda _: ("faces",),
    prompts=experiment.prompts,
    check=experiment.check,
    run=experiment.run,
    protocol_fields=lambda exp, _: frozenset(PROTOCOL_FIELDS | ({"iat"} if exp.pairs else set())),
    metrics=metrics,
    figures=job_figures,
    report=StudyReport(section=section, terminal=terminal, ranking=RANKING),
)
