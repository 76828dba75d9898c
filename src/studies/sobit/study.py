"""Define the study of So-B-IT."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import pandas as pd
from rich.console import RenderableType

from src.configs import RunConfig
from src.report.findings import SPECIFICATION
from src.report.study import StudyReport
from src.report.tables import build_table, lay_out
from src.storage import results
from src.studies.protocol import Cost, NamedFigure, Study, StudyResult
from src.studies.shared.face_axes import label_axis
from src.studies.sobit import experiment
from src.studies.sobit.config import SobitConfig
from src.studies.sobit.prompts import build_prompts
from src.studies.sobit.section import build_section
from src.studies.sobit.word_figures import draw_word_figures
from src.studies.sobit.word_rows import combine_groups, fill_columns, summarise_models

# Protocol fields that affect the result, by measure.
PROTOCOL_FIELDS = {
    "association": ("permutations", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
    "retrieval": ("top_k", "permutations", "article", "bootstrap", "pooling"),
    "strength": ("top_k", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
}
# Columns whose means over words, per axis, become MLflow metrics.
METRICS = ("maxskew", "ndkl", "entropy")
TITLE = (
    "So-B-IT: words with q ≤ .05; mean over words of the largest |C| (association) or MaxSkew (retrieval), "
    "in brackets its 95th percentile with permuted labels"
)
# Measure, and columns of `summarise_models`: numbers of significant words and of all words, mean, mean of the
# null's 95th percentile.
TERMINAL_COLUMNS = (
    ("association", "significant", "words", "largest", "null"),
    ("retrieval", "skewed", "ranked", "maxskew", "maxskew_null"),
)


def compute_metrics(result: StudyResult) -> dict[str, float]:
    """Compute means over captions, with names such as `maxskew.race`; `words` and `significant` are numbers.

    `significant` counts the captions with q <= .05 for at least one group.
    """
    rows = result.analyses
    metrics: dict[str, float] = {}
    for axis, axis_rows in rows.groupby("axis"):
        captions = axis_rows.assign(magnitude=axis_rows["association"].abs()).groupby("caption")
        values = {name: captions[name].first().mean() for name in METRICS}
        values |= {"association": captions["magnitude"].max().mean(), "words": len(captions)}
        if axis_rows["q"].notna().any():
            values["significant"] = (captions["q"].min() <= 0.05).sum()
        metrics |= {f"{name}.{axis}": float(value) for name, value in values.items()}
    return metrics | {"similarity": float(rows["similarity"].mean())}


def draw_figures(_: SobitConfig, columns: Mapping[str, object], result: StudyResult) -> Iterator[NamedFigure]:
    """Draw the words with the largest |C|, the nearest faces, the strongest and the weakest words."""
    rows = fill_columns(results.with_job_columns(columns, result.analyses))
    for drawing in chain.from_iterable(draw_word_figures(rows, 1).values()):
        yield f"{drawing.name}.png", drawing.figure, drawing.alt_text


def estimate_cost(cfg: RunConfig, counts: Mapping[str, int], width: int) -> Cost:
    """Estimate the bytes of the results on disk, and of vectors, draws and cosines in memory."""
    assert isinstance(cfg.exp, SobitConfig)
    protocol, measure, faces = cfg.protocol, cfg.exp.measure, counts["faces"]
    captions = len(build_prompts(cfg).frame)
    words = captions - protocol.vocabulary * (measure != "retrieval")
    # Vectors, int16 bootstrap weights, and blocks of cosines, in bytes.
    memory = faces * (max(width, 64) * 16 + protocol.bootstrap * 2) + 1e9 * min(1, faces * words / 4e7)
    return Cost(12_000 * words, memory)


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Build a table with a row per axis and specification, and a column per model.

    A cell has the number of words with q <= .05 for at least one group, the number of all words, the mean
    over words of the largest |C| and, in brackets, of the 95th percentile of that group's null. For
    retrieval, MaxSkew takes the place of |C|. Strength has no axis: the list is empty if nothing else was
    measured.
    """
    rows: list[dict[str, Any]] = []
    for values, group_rows in fill_columns(analyses).groupby([*SPECIFICATION, "taxonomy"], sort=False):
        specification = dict(zip(SPECIFICATION, values, strict=False))
        summaries = summarise_models(combine_groups(group_rows)).query("axis != ''").to_dict("records")
        rows += [
            {
                **specification,
                "model": row["model"],
                "label": f"{measure}: {label_axis(row['axis'])}",
                "text": f"{row[significant]} of {row[total]}; {row[mean]:.2f} ({row[null]:.2f})",
            }
            for measure, significant, total, mean, null in TERMINAL_COLUMNS
            for row in summaries
            if row[total]
        ]
    if not rows:
        return []
    table = lay_out(pd.DataFrame(rows), "debias", "protocol", "seed")
    return [build_table(table, f"{dataset}: {TITLE}")]


STUDY = Study(
    name="sobit",
    roles=lambda _: ("faces",),
    prompts=build_prompts,
    check=experiment.check_faces,
    run=experiment.run,
    protocol_fields=lambda exp, _: frozenset(PROTOCOL_FIELDS[exp.measure]),
    metrics=compute_metrics,
    figures=draw_figures,
    cost=estimate_cost,
    report=StudyReport(section=build_section, terminal=build_terminal_tables),
    config_groups=lambda _: frozenset({"taxonomy"}),
)
