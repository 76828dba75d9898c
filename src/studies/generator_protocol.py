"""Define what a study of generative models gives to the rest of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from src import configs
from src.configs import GenerateConfig
from src.errors import InputError
from src.generators.answer_log import Kept
from src.generators.causal import Causal
from src.generators.multimodal import Multimodal
from src.report.study import StudyReport
from src.storage.versions import declared


@dataclass(frozen=True)
class Inputs:
    """Items or faces that a model is asked about.

    Attributes:
        rows: one per item or face.
        hashes: SHA-256 of each source of the rows, by its name.
        summary: number and kind of the rows, for the plan.
        tags: further tags of the run.
        notes: remarks on what was left out of the sources.
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
        load: () -> model; None if a server has it, or answers need no model.
        log: (name of the way of asking, answer -> whether it is one of this kind) -> log of the answers.
    """

    load: Callable[[], Causal | Multimodal] | None
    log: Callable[[str, Callable[[Any], bool]], Kept]


@dataclass(frozen=True)
class GeneratorResult:
    """Result of a job.

    Attributes:
        analyses: rows of analyses.csv, without the columns that name the job.
        tables: name -> content of each Parquet file beside it.
        metrics: MLflow metrics.
        tags: MLflow tags.
        sheets: name -> content of each csv file beside it, without `model` and `task`.
    """

    analyses: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    sheets: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class GeneratorStudy:
    """A study of generative models.

    Attributes:
        name: its name in the results, and below `studies` in `src/versions.yaml`.
        inputs: (cfg, name of the task) -> items or faces; raises `InputError` if prompts or settings do not
            fit, or inputs do not suffice, `NotApplicable` if another model or dataset might be served.
        run: (cfg, inputs, generator, columns that name the job) -> result.
        protocol: (cfg, name of the dataset's YAML) -> first part of the name of the protocol.
        fields: fields of the config that decide numbers, besides those of every task (`llm`, `task`, ...).
        parts: parts in `src/versions.yaml` that decide numbers, besides the study's, metrics and generators.
        report: what it adds to reports and to the terminal.
    """

    name: str
    inputs: Callable[[GenerateConfig, str], Inputs]
    run: Callable[[GenerateConfig, Inputs, Generator, Mapping[str, object]], GeneratorResult]
    protocol: Callable[[GenerateConfig, str], str]
    fields: frozenset[str]
    parts: tuple[str, ...]
    report: StudyReport

    def versions(self) -> dict[str, int]:
        """Return the declared versions of what decides the study's numbers."""
        return declared("metrics", "generators", *self.parts, f"studies.{self.name}")


def study_of(task: configs.TaskConfig) -> GeneratorStudy:
    """Return the study that a task belongs to.

    Raises:
        InputError: there is no study of generative models of that name.
    """
    study = configs.studies.load(task.study)
    if not isinstance(study, GeneratorStudy):
        raise InputError(
            f"task.study={task.study}: expected a study of generative models, got another one. Leave "
            "task.study out: each YAML in conf/task names its study."
        )
    return study
