"""The study of subtler biases: its part of reports."""

from __future__ import annotations

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from src.report.study import StudyReport
from src.report.tables import plain
from src.studies.protocol import ReportedStudy
from src.studies.subtler.section import section
from src.studies.subtler.terminal import TITLE, reasons, short


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of tau-c, and a line for each task without one."""
    shown: list[RenderableType] = [plain(short(analyses), f"{dataset}: {TITLE}")]
    return shown + [Text(line, style="yellow") for line in reasons(analyses)]


STUDY = ReportedStudy("subtler", StudyReport(section=section, terminal=terminal))
