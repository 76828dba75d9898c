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
from src.studies.sobit import experiment
from src.studies.sobit.config import SobitConfig
from src.studies.sobit.prompts import prompts
from src.studies.sobit.section import section
from src.studies.sobit.word_figures import pictures
from src.studies.sobit.word_rows import AXIS_LABELS, by_word, fill_columns, summarise

# Protocol fields that affect the result, by measure.
PROTOCOL_FIELDS = {
    "association": ("permutations", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
    "retrieval": ("top_k", "permutations", "article", "bootstrap", "pooling"),
    "strength": ("top_k", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
}
# Columns that become metrics: means over words, per axis.
METRICS = ("maxskew", "ndkl", "entropy")
TITLE = (
    "So-B-IT: words with q ≤ .05; mean over words of the largest |C| (association) or MaxSkew (retrieval) "
    "(95th percentile with permuted labels)"
)
# Measure, and columns of `summarise`: significant words, all words, mean, mean of the null.
TERMINAL_COLUMNS = (
    ("association", "significant", "words", "largest", "null"),
    ("retrieval", "skewed", "ranked", "maxskew", "maxskew_null"),
)


def metrics(result: StudyResult) -> dict[str, float]:
    """Return means over words, by axis; `significant` is the number of captions with a group of q <= .05."""
    rows = result.analyses
    values: dict[str, float] = {}
    for axis, axis_rows in rows.groupby("axis"):
        words = axis_rows.assign(size=axis_rows["association"].abs()).groupby("caption")
        means = {name: words[name].first().mean() for name in METRICS}
        means |= {"association": words["size"].max().mean(), "words": len(words)}
        if axis_rows["q"].notna().any():
            means["significant"] = (words["q"].min() <= 0.05).sum()
        values |= {f"{name}.{axis}": float(value) for name, value in means.items()}
    return values | {"similarity": float(rows["similarity"].mean())}


def job_figures(_: SobitConfig, columns: Mapping[str, object], result: StudyResult) -> Iterator[NamedFigure]:
    """Draw the most skewed words, the nearest faces, the strongest and the weakest words."""
    rows = fill_columns(results.with_job_columns(columns, result.analyses))
    for drawing in chain.from_iterable(pictures(rows, 1).values()):
        yield f"{drawing.name}.png", drawing.figure, drawing.alternative


def cost(cfg: RunConfig, counts: Mapping[str, int], width: int) -> Cost:
    """Estimate the cost of the measure, of permutations and of the interval."""
    assert isinstance(cfg.exp, SobitConfig)
    protocol, measure, faces = cfg.protocol, cfg.exp.measure, counts["faces"]
    captions = len(prompts(cfg).frame)
    words = captions - protocol.vocabulary * (measure != "retrieval")
    # Vectors, int16 bootstrap weights, and blocks of cosines, in bytes.
    memory = faces * (max(width, 64) * 16 + protocol.bootstrap * 2) + 1e9 * min(1, faces * words / 4e7)
    return Cost(12_000 * words, memory)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table with a row per axis and specification, a column per model.

    A model's text is the number of words with q <= .05 for at least one group, of all words; the mean over
    words of the largest |C| and, in brackets, of the 95th percentile of that group's null. For retrieval,
    MaxSkew takes the place of |C|. Strength has no axis: the list is empty if nothing else was measured.
    """
    rows: list[dict[str, Any]] = []
    for values, group_rows in fill_columns(analyses).groupby([*SPECIFICATION, "taxonomy"], sort=False):
        specification = dict(zip(SPECIFICATION, values, strict=False))
        counts = summarise(by_word(group_rows)).query("axis != ''").to_dict("records")
        rows += [
            {
                **specification,
                "model": row["model"],
                "label": f"{name}: {AXIS_LABELS[row['axis']]}",
                "text": f"{row[count]} of {row[total]}; {row[mean]:.2f} ({row[null]:.2f})",
            }
            for name, count, total, mean, null in TERMINAL_COLUMNS
            for row in counts
            if row[total]
        ]
    if not rows:
        return []
    table = lay_out(pd.DataFrame(rows), "debias", "protocol", "seed")
    return [build_table(table, f"{dataset}: {TITLE}")]


STUDY = Study(
    name="sobit",
    roles=lambda _: ("faces",),
    prompts=prompts,
    check=experiment.check,
    run=experiment.run,
    protocol_fields=lambda exp, _: frozenset(PROTOCOL_FIELDS[exp.measure]),
    metrics=metrics,
    figures=job_figures,
    cost=cost,
    report=StudyReport(section=section, terminal=terminal),
    config_groups=frozenset({"taxonomy"}),
)
