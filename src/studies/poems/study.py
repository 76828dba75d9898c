"""The study of poems about faces by multimodal models."""

from __future__ import annotations

import pandas as pd
from rich.console import RenderableType

from src.configs import GenerateConfig
from src.report.study import StudyReport
from src.report.tables import plain
from src.studies.generator_protocol import GeneratorStudy
from src.studies.poems import experiment
from src.studies.poems.section import section
from src.studies.poems.terminal import TITLE, short


def protocol(cfg: GenerateConfig, dataset: str) -> str:  # noqa: ARG001
    """Return how poems are written, and the dataset of the faces."""
    return f"greedy+dataset={dataset}"


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of the widest gaps."""
    return [plain(short(analyses), f"{dataset}: {TITLE}")]


STUDY = GeneratorStudy(
    name="poems",
    check=experiment.check,
    inputs=experiment.inputs,
    run=experiment.run,
    protocol=protocol,
    fields=frozenset({"faces"}),
    parts=("inference",),
    report=StudyReport(section=section, terminal=terminal),
)
