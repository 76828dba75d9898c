"""Define the protocol of a study of encoders."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from src import configs
from src.configs import ProtocolConfig, RunConfig
from src.report.study import StudyReport
from src.stimuli import Table
from src.storage.versions import declared_versions

Tables = Mapping[str, Table]
Vectors = Mapping[str, Tensor]
NamedFigure = tuple[str, Figure, str]  # file name, figure and alt text


class StudyResult(Protocol):
    """Result of one experiment."""

    @property
    def analyses(self) -> pd.DataFrame:
        """Return the rows of analyses.csv, one per analysis, without the columns that name the job."""

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Return the further tables of the result, by name."""

    @property
    def notes(self) -> list[str]:
        """Return remarks for readers of the numbers."""


@dataclass(frozen=True)
class AnalysisTables:
    """Analyses, further tables and notes: the plain `StudyResult`."""

    analyses: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cost:
    """Expected cost of an analysis: bytes on disk and in memory."""

    disk: float
    memory: float


@dataclass(frozen=True)
class Study:
    """A study of encoders.

    Attributes:
        name: name in the results, and below `studies` in `src/versions.yaml`.
        roles: (exp) -> roles of the stimuli that the experiment needs.
        check: (cfg, tables) -> None; raises `InputError` before any work if the tables are unsuitable, or
            `NotApplicable` if another dataset or protocol might be suitable.
        run: (cfg, tables, unit vectors in the order of the tables) -> result.
        protocol_fields: (exp, protocol) -> fields of the protocol that affect the experiment's numbers.
        metrics: (result) -> MLflow metrics; NaN where undefined.
        report: section of the report, terminal tables and conclusions.
        prompts: (cfg) -> table of texts that the experiment defines itself; None if it has none.
        figures: (exp, columns that name the job, result) -> the job's figures.
        cost: (cfg, number of stimuli by role, width of vectors) -> expected cost; default: 0.
        config: config class of a study defined outside this repository; `exp.options` sets its fields.
        config_groups: (cfg) -> config groups that affect the numbers of the job; of others it keeps none.
        further_versions: (cfg) -> name -> version of code that affects only jobs with certain settings.
        version: version of a study defined outside this repository; raise it when its numbers change.
    """

    name: str
    roles: Callable[[Any], tuple[str, ...]]
    check: Callable[[RunConfig, Tables], object]
    run: Callable[[RunConfig, Tables, Vectors], StudyResult]
    protocol_fields: Callable[[Any, ProtocolConfig], frozenset[str]]
    metrics: Callable[[Any], dict[str, float]]
    report: StudyReport = field(default_factory=StudyReport)
    prompts: Callable[[RunConfig], Table | None] = lambda _: None
    figures: Callable[[Any, Mapping[str, object], Any], Iterator[NamedFigure]] = lambda *_: iter(())
    cost: Callable[[RunConfig, Mapping[str, int], int], Cost] = lambda *_: Cost(0, 0)
    config: type | None = None
    config_groups: Callable[[RunConfig], frozenset[str]] = lambda _: frozenset()
    further_versions: Callable[[RunConfig], dict[str, int]] = lambda _: {}
    version: int | None = None

    def versions(self, cfg: RunConfig) -> dict[str, int]:
        """Return the declared versions of the code that affects a job's numbers, by name."""
        if self.version is not None:
            return {**declared_versions("metrics"), f"studies.{self.name}": self.version}
        return declared_versions("metrics", "inference", f"studies.{self.name}") | self.further_versions(cfg)


def load_study(exp: configs.ExpConfig) -> Study:
    """Load the study of an experiment; raise `InputError` for an unknown name."""
    study: Study = configs.studies.load(exp.study, Study)
    return study
