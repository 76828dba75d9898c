"""Define what a study contributes to reports."""

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
    """A study's section of the page: its rows, its templates and their values."""

    rows: pd.DataFrame  # analyses that the section shows, which the head of the page counts
    templates: Path | None = None  # folder of the section's templates
    context: Mapping[str, Any] = field(default_factory=dict)  # values of its templates
    body: tuple[str, ...] = ()  # templates of the section itself, in order
    # Sentences that state the results, for the head of the page.
    conclusions: list[str] = field(default_factory=list)
    # Rows of the explorer, see `explorer.build_rows`; None if the section has tables of its own.
    explorer_rows: pd.DataFrame | None = None
    table: str = ""  # template of the main table, before the explorer
    specification: str = ""  # template of the specification, for the head of the page
    guide: str = ""  # template of how to read the main table
    missing: str = ""  # template of list items on missing results, for the head of the page
    links: tuple[tuple[str, str], ...] = ()  # anchors and titles for the list of contents
    # Title of a further list -> its anchors and names.
    link_lists: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    script_hash: str = ""  # SHA-256 of an inline script of the section, see `explorer.hash_script`


def concatenate(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the analyses of a study's jobs, without duplicate rows."""
    return pd.concat(frames, ignore_index=True).drop_duplicates(ignore_index=True)


@dataclass(frozen=True)
class Ranking:
    """Ranking of models over all runs of a store."""

    runs: Callable[[Tracker, str], list[StoredRun]]  # (tracker, dataset) -> runs to rank, or `InputError`
    # (tracker, runs, an empty folder) -> path of the page; raises `InputError` if there are no results.
    write: Callable[[Tracker, list[StoredRun], Path], Path]


@dataclass(frozen=True)
class StudyReport:
    """Contribution of a study to the report, the terminal and the parent run of a sweep."""

    # Contents of the analyses.csv of its jobs -> one table.
    combine: Callable[[Sequence[pd.DataFrame]], pd.DataFrame] = concatenate
    # Combined table -> the same with the rows and columns that the page shows.
    arrange: Callable[[pd.DataFrame], pd.DataFrame] = lambda analyses: analyses
    # (findings, folder) -> section, None without analyses; writes its figures and tables into the folder.
    section: Callable[[Findings, ReportFolder], Section | None] = lambda _, __: None
    # (analyses) -> sentences that state the results, for descriptions of runs.
    conclusions: Callable[[pd.DataFrame], Sequence[str]] = lambda _: ()
    # (analyses, dataset) -> tables and lines to print at the end of a sweep.
    terminal: Callable[[pd.DataFrame, str], Sequence[RenderableType]] = lambda _, __: []
    # (findings of the sweep) -> tables and lines to print at its end, of a study without jobs.
    comparison: Callable[[Findings], Sequence[RenderableType]] = lambda _: []
    # (findings) -> findings without numbers of other studies that it finds not to be interpretable; its own
    # section and comparison get all numbers.
    withhold: Callable[[Findings], Findings] | None = None
    # (analyses, dataset, folder) -> metrics of the parent run; writes files of the parent run into the
    # folder.
    summarise: Callable[[pd.DataFrame, str, Path], dict[str, float]] = lambda *_: {}
    # (findings of finished jobs) -> smallest effects that further jobs on the same stimuli could detect;
    # shown in the plan.
    detectable: Callable[[Findings], pd.DataFrame] = lambda _: pd.DataFrame()
    ranking: Ranking | None = None  # ranking of models over all runs of a store


# First words of the `reason` of an analysis whose numbers are withheld.
NOT_INTERPRETED = "not interpreted"


def withhold(findings: Findings) -> Findings:
    """Remove numbers that are not to be interpreted, as studies without jobs find, from the findings."""
    for name in configs.studies.WITHOUT_JOBS:
        if remove := load_report(name).withhold:
            findings = remove(findings)
    return findings


def load_report(study: str) -> StudyReport:
    """Load the report of a study; raise `InputError` for an unknown name."""
    # A study without jobs, such as debiasing, is registered as its report.
    loaded = configs.studies.load(study)
    report: StudyReport = loaded if isinstance(loaded, StudyReport) else loaded.report
    return report
