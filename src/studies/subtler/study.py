"""The study of subtler biases of language models."""

from __future__ import annotations

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from src.configs import GenerateConfig, RecordedConfig
from src.report.study import StudyReport
from src.report.tables import plain
from src.studies.generator_protocol import GeneratorStudy
from src.studies.subtler import experiment
from src.studies.subtler.section import section
from src.studies.subtler.terminal import TITLE, reasons, short


def protocol(cfg: GenerateConfig, dataset: str) -> str:  # noqa: ARG001
    """Return how the answers are had."""
    return "recorded" if isinstance(cfg.llm, RecordedConfig) else cfg.answer


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of tau-c, and a line for each task without one."""
    shown: list[RenderableType] = [plain(short(analyses), f"{dataset}: {TITLE}")]
    return shown + [Text(line, style="yellow") for line in reasons(analyses)]


STUDY = GeneratorStudy(
    name="subtler",
    check=experiment.check,
    inputs=experiment.inputs,
    run=experiment.run,
    protocol=protocol,
    fields=frozenset({"answer"}),
    parts=("scoring",),
    report=StudyReport(section=section, terminal=terminal),
)
