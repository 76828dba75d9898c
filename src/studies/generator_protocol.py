"""Define the protocol of a study of generative models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from omegaconf import MISSING

from src import configs
from src.configs import GenerateConfig
from src.errors import InputError
from src.generators.language_models import Causal, Multimodal
from src.report.study import StudyReport
from src.storage.answer_log import AnswerLog
from src.storage.versions import declared_versions


@dataclass(frozen=True)
class Inputs:
    """Items or faces that a model is asked about.

    Attributes:
        rows: one row per item or face.
        hashes: SHA-256 of each source of the rows, by its name.
        summary: number and kind of the rows, shown in the plan of a job.
        tags: further tags of the run.
        notes: remarks, for instance on items left out of the sources.
    """

    rows: pd.DataFrame
    hashes: Mapping[str, str]
    summary: str
    tags: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generator:
    """A generative model, and the log of its answers.

    Attributes:
        load: () -> model; None if a server runs the model, or if its answers are recorded or planted.
        open_log: (name of the question format, check of a logged answer) -> log of the answers.
    """

    load: Callable[[], Causal | Multimodal] | None
    open_log: Callable[[str, Callable[[Any], bool]], AnswerLog]


@dataclass(frozen=True)
class GeneratorResult:
    """Result of a job.

    Attributes:
        analyses: rows of analyses.csv, without the columns that name the job.
        tables: name -> content of each Parquet file.
        metrics: MLflow metrics.
        tags: MLflow tags.
        csvs: name -> content of each further csv file, without the columns `model` and `task`.
    """

    analyses: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    csvs: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class GeneratorStudy:
    """A study of generative models.

    Attributes:
        name: name in the results, and below `studies` in `src/versions.yaml`.
        inputs: (cfg, name of the task) -> items or faces; raises `InputError` for unsuitable prompts or
            settings or too few inputs, and `NotApplicable` where another model or dataset might be suitable.
        run: (cfg, inputs, generator, columns that name the job) -> result.
        protocol_name: (cfg, name of the dataset's YAML) -> name of the protocol in the results; changed
            settings are added to it.
        fields: fields of the config that affect numbers, besides those of every task (`llm`, `task`, ...).
        parts: further parts of `src/versions.yaml` that affect numbers.
        report: section of the report, terminal tables and conclusions.
    """

    name: str
    inputs: Callable[[GenerateConfig, str], Inputs]
    run: Callable[[GenerateConfig, Inputs, Generator, Mapping[str, object]], GeneratorResult]
    protocol_name: Callable[[GenerateConfig, str], str]
    fields: frozenset[str]
    parts: tuple[str, ...]
    report: StudyReport

    def versions(self) -> dict[str, int]:
        """Return the declared versions of the code that affects the study's numbers, by name."""
        return declared_versions("metrics", "generators", *self.parts, f"studies.{self.name}")


def load_study(task: configs.TaskConfig) -> GeneratorStudy:
    """Load the study of a task; raise `InputError` if it is of encoders, or of tasks with other fields."""
    study = configs.studies.load(task.study)
    if not isinstance(study, GeneratorStudy):
        raise InputError(
            f"task.study={task.study}: expected a study of generative models, got one of encoders, or one "
            "that compares jobs of other studies. Remove task.study: each YAML in conf/task names its study."
        )
    # A schema of tasks is of the study that reads its fields; a study defined elsewhere may read them, too.
    schema_study = type(task).study
    if study.name in configs.studies.STUDIES and schema_study not in (MISSING, study.name):
        raise InputError(
            f"task.study={task.study}: expected {schema_study}, whose fields this task has. Remove "
            "task.study, or choose another task: each YAML in conf/task names its study."
        )
    return study
