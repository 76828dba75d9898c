"""The study of subtler biases of language models."""

from __future__ import annotations

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from src.configs import RecordedConfig
from src.report.study import StudyReport
from src.report.tables import plain
from src.studies.generator_protocol import GeneratorStudy
from src.studies.subtler import experiment
from src.studies.subtler.section import section
from src.studies.subtler.terminal import TITLE, reasons, short


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of tau-c, and a line for each task without one."""
    shown: list[RenderableType] = [plain(short(analyses), f"{dataset}: {TITLE}")]
    return shown + [Text(line, style="yellow") for line in reasons(analyses)]


STUDY = GeneratorStudy(
    name="subtler",
    inputs=experiment.inputs,
    run=experiment.run,
    protocol=lambda cfg, _: "recorded" if isinstance(cfg.llm, RecordedConfig) else cfg.answer,
    fields=frozenset({"answer"}),
    parts=("scoring",),
    report=StudyReport(section=section, terminal=terminal),
)
