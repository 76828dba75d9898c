"""Define the parts of a study that reports need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import RenderableType

from src import configs
from src.report.findings import Findings
from src.report.folder import ReportFolder

if TYPE_CHECKING:
    from src.tracking import StoredRun, Tracker


@dataclass(frozen=True)
class Section:
    """Section of the page of a report, with the names of its templates."""

    rows: pd.DataFrame  # analyses that the section shows; the head of the page counts them
    templates: Path | None = None  # folder of the section's templates
    context: Mapping[str, Any] = field(default_factory=dict)  # values of its templates
    body: tuple[str, ...] = ()  # templates of the section itself, in order
    # What the numbers say, in sentences, for the head of the page.
    conclusions: list[str] = field(default_factory=list)
    # Rows of the explorer, see `explorer.build_rows`; None if the section has tables of its own.
    explorer_rows: pd.DataFrame | None = None
    # Templates: the main table and how to read its numbers, before the explorer; for the head of the page:
    # the specification, list items of missing results.
    table: str = ""
    facts: str = ""
    guide: str = ""
    missing: str = ""
    links: tuple[tuple[str, str], ...] = ()  # anchors and titles for the list of contents
    # Title -> anchors and names of a further list.
    link_lists: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    script: str = ""  # SHA-256 of an inline script of the section, see `explorer.digest`


def concatenate(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the analyses of a study's jobs, each row once."""
    return pd.concat(frames, ignore_index=True).drop_duplicates(ignore_index=True)


@dataclass(frozen=True)
class Ranking:
    """Ranking of models over all runs of a store."""

    runs: Callable[[Tracker, str], list[StoredRun]]  # (tracker, dataset) -> runs to rank, or `InputError`
    # (tracker, runs, an empty folder) -> path of the page; raises `InputError` without results.
    write: Callable[[Tracker, list[StoredRun], Path], Path]


@dataclass(frozen=True)
class StudyReport:
    """The contributions of a study to the report, the terminal and the parent run of a sweep."""

    # Contents of the analyses.csv of its jobs -> one table.
    combine: Callable[[Sequence[pd.DataFrame]], pd.DataFrame] = concatenate
    # That table -> the same with rows and columns as the page shows them.
    arrange: Callable[[pd.DataFrame], pd.DataFrame] = lambda analyses: analyses
    # (findings, folder) -> section, or None without analyses; writes its figures and tables into the folder.
    section: Callable[[Findings, ReportFolder], Section | None] = lambda _, __: None
    # (analyses) -> sentences that state what they show, for descriptions of runs.
    conclusions: Callable[[pd.DataFrame], Sequence[str]] = lambda _: ()
    # (analyses, dataset) -> tables and lines to print at the end of a sweep.
    terminal: Callable[[pd.DataFrame, str], Sequence[RenderableType]] = lambda _, __: []
    # (analyses, dataset, folder) -> metrics of the parent run; writes its files into the folder.
    summarise: Callable[[pd.DataFrame, str, Path], dict[str, float]] = lambda *_: {}
    ranking: Ranking | None = None  # ranking of models over all runs of a store


def report_of(study: str) -> StudyReport:
    """Return the report of a study, or raise `InputError` if it is unknown."""
    loaded = configs.studies.load(study)
    report: StudyReport = loaded if isinstance(loaded, StudyReport) else loaded.report
    return report
