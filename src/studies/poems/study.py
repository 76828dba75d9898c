"""The study of poems about faces: its part of reports."""

from __future__ import annotations

import pandas as pd
from rich.console import RenderableType

from src.report.study import StudyReport
from src.report.tables import plain
from src.studies.poems.section import section
from src.studies.poems.terminal import TITLE, short
from src.studies.protocol import ReportedStudy


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of the widest gaps."""
    return [plain(short(analyses), f"{dataset}: {TITLE}")]


STUDY = ReportedStudy("poems", StudyReport(section=section, terminal=terminal))
