"""Part of a study that reports need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import RenderableType

from src import configs
from src.report.findings import Findings
from src.report.folder import Folder

if TYPE_CHECKING:
    from src.tracking import Past, Tracker


@dataclass(frozen=True)
class Section:
    """Section of the page of a report.

    Attributes:
        rows: analyses that the section shows; the head of the page counts them.
        templates: folder of the section's templates.
        context: values of its templates.
        body: templates of the section itself, in order.
        facts, guide, missing: templates of its part in the head of the page: main numbers, how to read them,
            and list items of what is missing; empty if there is none.
        links: anchors and titles for the list of contents.
        link_lists: title -> anchors and names of a further list.
        script: SHA-256 of an inline script of the section, base64; empty if there is none.
    """

    rows: pd.DataFrame
    templates: Path | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    body: tuple[str, ...] = ()
    facts: str = ""
    guide: str = ""
    missing: str = ""
    links: tuple[tuple[str, str], ...] = ()
    link_lists: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    script: str = ""


def concatenated(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the analyses of a study's jobs, each row once."""
    return pd.concat(frames, ignore_index=True).drop_duplicates(ignore_index=True)


@dataclass(frozen=True)
class Ranking:
    """Ranking of models over all runs of a store.

    Attributes:
        runs: (tracker, dataset) -> runs that the ranking is over; raises `InputError` if there are none.
        write: (tracker, runs, an empty folder) -> path of the page; raises `InputError` if results are gone.
    """

    runs: Callable[[Tracker, str], list[Past]]
    write: Callable[[Tracker, list[Past], Path], Path]


@dataclass(frozen=True)
class StudyReport:
    """What a study adds to the report, the terminal and the parent run of a sweep.

    Attributes:
        combine: analyses.csv of each of its jobs -> one table.
        arrange: that table -> the same with rows and columns as the page shows them.
        section: writes figures and tables of the section into the report's folder; None if it has nothing to
            show.
        terminal: (analyses, dataset) -> tables and lines to be printed at the end of a sweep.
        summarise: (analyses, dataset, folder) -> metrics of the parent run; writes its files into the folder.
        ranking: of models over all runs of a store; None if it ranks none.
    """

    combine: Callable[[Sequence[pd.DataFrame]], pd.DataFrame] = concatenated
    arrange: Callable[[pd.DataFrame], pd.DataFrame] = lambda analyses: analyses
    section: Callable[[Findings, Folder], Section | None] = lambda _, __: None
    terminal: Callable[[pd.DataFrame, str], Sequence[RenderableType]] = lambda _, __: []
    summarise: Callable[[pd.DataFrame, str, Path], dict[str, float]] = lambda *_: {}
    ranking: Ranking | None = None


def report_of(study: str) -> StudyReport:
    """Report part of a study.

    Raises:
        InputError: there is no such study.
    """
    found = configs.studies.load(study)
    report: StudyReport = found if isinstance(found, StudyReport) else found.report
    return report
