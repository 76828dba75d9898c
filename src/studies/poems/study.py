"""The study of poems about faces by multimodal models."""

from __future__ import annotations

import pandas as pd
from rich.console import RenderableType

from src.report.study import StudyReport
from src.report.tables import plain
from src.studies.generator_protocol import GeneratorStudy
from src.studies.poems import experiment
from src.studies.poems.section import section
from src.studies.poems.terminal import TITLE, short


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of the widest gaps."""
    return [plain(short(analyses), f"{dataset}: {TITLE}")]


STUDY = GeneratorStudy(
    name="poems",
    inputs=experiment.inputs,
    run=experiment.run,
    protocol=lambda _, dataset: f"greedy+dataset={dataset}",
    fields=frozenset({"faces"}),
    parts=("inference",),
    report=StudyReport(section=section, terminal=terminal),
)
