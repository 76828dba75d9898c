"""The study of So-B-IT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.figure import Figure
from rich.console import RenderableType

from src.configs import ProtocolConfig, RunConfig
from src.report.study import StudyReport
from src.report.tables import plain
from src.stimuli import Table
from src.storage import results
from src.studies.protocol import Cost, Study
from src.studies.sobit import experiment
from src.studies.sobit.config import SobitConfig
from src.studies.sobit.section import pictures, section
from src.studies.sobit.terminal import TITLE, short
from src.studies.sobit.word_rows import completed

# Fields of the protocol that decide something, by measure.
FIELDS = {
    "association": ("permutations", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
    "retrieval": ("top_k", "permutations", "article", "bootstrap", "pooling"),
    "strength": ("top_k", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
}
# Of each axis, means over words.
LOGGED = ("maxskew", "ndkl", "entropy")


def roles(exp: SobitConfig) -> tuple[str, ...]:  # noqa: ARG001
    """Return the role of faces."""
    return ("faces",)


def check(cfg: RunConfig, shown: Mapping[str, Table]) -> object:
    """Check the faces; see `experiment.check`."""
    return experiment.check(cfg, shown["faces"])


def protocol_fields(exp: SobitConfig, protocol: ProtocolConfig) -> frozenset[str]:  # noqa: ARG001
    """Return the fields of the protocol that decide something for the measure."""
    return frozenset(FIELDS[exp.measure])


def metrics(result: experiment.Sobit) -> dict[str, float]:
    """Return means over words, by axis; `significant` counts captions with q of .05 or less for any group."""
    rows = result.analyses
    found: dict[str, float] = {}
    for axis, own in rows.groupby("axis"):
        words = own.assign(size=own["association"].abs()).groupby("caption")
        means = {name: words[name].first().mean() for name in LOGGED}
        means |= {"association": words["size"].max().mean(), "words": len(words)}
        means |= {"significant": float((words["q"].min() <= 0.05).sum())} if own["q"].notna().any() else {}
        found |= {f"{name}.{axis}": float(value) for name, value in means.items()}
    return found | {"similarity": float(rows["similarity"].mean())}


def job_figures(
    exp: SobitConfig,  # noqa: ARG001
    columns: Mapping[str, object],
    result: experiment.Sobit,
) -> Iterator[tuple[str, Figure, str]]:
    """Draw the most skewed words, whose faces are nearest, the strongest and the weakest words."""
    rows = completed(results.named(columns, result.analyses))
    for drawing in (one for parts in pictures(rows, 1).values() for one in parts):
        yield f"{drawing.name}.png", drawing.figure, drawing.alternative


def cost(cfg: RunConfig, counts: Mapping[str, int], width: int) -> Cost:
    """Estimate the cost of the measure, of permutations and of the interval."""
    assert isinstance(cfg.exp, SobitConfig)
    protocol, measure, faces = cfg.protocol, cfg.exp.measure, counts["faces"]
    captions = len(experiment.prompts(cfg).frame)
    words = captions - protocol.vocabulary * (measure != "retrieval")
    memory = faces * (max(width, 64) * 16 + protocol.bootstrap * 2) + 1e9 * min(1, faces * words / 4e7)
    return Cost(12_000 * words, memory)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of words per axis; none if strength alone was measured."""
    table = short(analyses)
    return [plain(table, f"{dataset}: {TITLE}")] if len(table) else []


STUDY = Study(
    name="sobit",
    roles=roles,
    prompts=experiment.prompts,
    check=check,
    run=experiment.run,
    protocol_fields=protocol_fields,
    metrics=metrics,
    figures=job_figures,
    cost=cost,
    report=StudyReport(section=section, terminal=terminal),
    config_groups=frozenset({"taxonomy"}),
)
