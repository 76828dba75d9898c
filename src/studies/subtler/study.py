"""Register the study of subtler biases of language models."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from src.configs import RecordedConfig
from src.report.study import StudyReport
from src.report.tables import across_models, plain
from src.studies.generator_protocol import GeneratorStudy
from src.studies.subtler import experiment
from src.studies.subtler.rows import reasons
from src.studies.subtler.scoring import ALL
from src.studies.subtler.section import section

TITLE = (
    "Subtler biases: Stuart's τ-c of polarity and answer, 95% interval over templates and stimuli, "
    "n (unmatched)"
)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of tau-c, and a line for each stratum without tau-c."""
    output: list[RenderableType] = [plain(terminal_table(analyses), f"{dataset}: {TITLE}")]
    return output + [Text(line, style="yellow") for line in reasons(analyses)]


def terminal_table(subtler: pd.DataFrame) -> pd.DataFrame:
    """Return a row per specification, task, coding, domain and direction, and a column of texts per model."""
    if subtler.empty:
        return subtler
    totals = subtler[subtler["gender"] == ALL]
    label = totals[["exp", "coding", "domain", "direction"]].astype(str).agg(" ".join, axis=1)
    texts = [_cell(row) for row in totals.to_dict("records")]
    return across_models(totals.assign(label=label, text=texts), "protocol", "seed")


def _cell(row: Mapping[Hashable, Any]) -> str:
    if row.get("reason") and pd.isna(row["tau_c"]):
        return f"no τ-c: {row['n_unmatched']} of {row['n']} match no option"
    interval = row.get("reason") or "no interval"
    if pd.notna(row["tau_c_low"]):
        interval = f"[{row['tau_c_low']:.2f}, {row['tau_c_high']:.2f}]"
    return f"{row['tau_c']:.3f} {interval}, {row['n']} ({row['n_unmatched']})"


STUDY = GeneratorStudy(
    name="subtler",
    inputs=experiment.inputs,
    run=experiment.run,
    protocol_name=lambda cfg, _: "recorded" if isinstance(cfg.llm, RecordedConfig) else cfg.answer,
    fields=frozenset({"answer"}),
    parts=("scoring",),
    report=StudyReport(section=section, terminal=terminal),
)
