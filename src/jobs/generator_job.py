"""Run a generator job: one generative model x one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from src import configs, tracking
from src.generators import model_weights
from src.generators.answer_log import Kept
from src.jobs.identity import Named, decisive, differences, family, resolve
from src.jobs.plan import Planned
from src.storage import cache, results
from src.studies.generator_protocol import Generator, Inputs, study_of

# Fields of the config that decide numbers in some studies only: `GeneratorStudy.fields` names them.
OPTIONAL = ("answer", "dataset", "demo", "faces", "scenes", "words", "labels", "templates", "taxonomy")

# Fields that answers were logged without, at the values that they had: a log from before is still read.
ADDED = {"limit": "max_tokens", "temperature": 0.0}


@dataclass(frozen=True)
class Task(Named):
    """One generative model x one task."""

    cfg: configs.GenerateConfig

    @classmethod
    def of(cls, composed: DictConfig, choices: Mapping[str, str], output: str) -> Task:
        """Name a composed config.

        Args:
            composed: the config.
            choices: which YAML was chosen of each group.
            output: folder of the job.

        Raises:
            InputError: a mandatory value is missing, or one is out of bounds.
        """
        cfg, resolved = resolve(composed)
        assert isinstance(cfg, configs.GenerateConfig)
        configs.check(cfg)
        study = study_of(cfg.task)
        resolved = {
            name: value for name, value in resolved.items() if name not in OPTIONAL or name in study.fields
        }
        return cls(
            cfg=cfg,
            resolved=resolved,
            study=cfg.task.study,
            exp=choices["task"],
            paper=cfg.task.paper,
            model=_model(cfg, choices["llm"])
            + differences("llm", choices["llm"], resolved["llm"], defaults=cfg.llm),
            dataset=family(choices["task"]),
            debias="none",
            protocol=study.protocol(cfg, choices.get("dataset", ""))
            + differences("task", choices["task"], resolved["task"], "task"),
            output=Path(output),
        )


def _model(cfg: configs.GenerateConfig, choice: str) -> str:
    if isinstance(cfg.llm, configs.RecordedConfig):
        return cfg.llm.name or Path(cfg.llm.path).stem
    return cfg.llm.name or choice


@dataclass(frozen=True)
class Prepared:
    """A job whose inputs and weights are present.

    Attributes:
        job: names and config.
        inputs: items or faces that the model is asked about.
        weights: revision and hashes of the weights; empty if a server has the model, or none is asked.
        generator: model and log of its answers.
    """

    job: Task
    inputs: Inputs
    weights: Mapping[str, str]
    generator: Generator


def prepare(job: Task) -> Prepared:
    """Check the settings, read the inputs and find the weights.

    Raises:
        InputError: they do not suffice; `NotApplicable` where another model or dataset might be served.
    """
    model_weights.check_device(job.cfg)
    inputs = study_of(job.cfg.task).inputs(job.cfg, job.exp)
    weights, load = model_weights.find(job.cfg)
    return Prepared(job, inputs, weights, Generator(load, partial(answer_log, job, weights)))


def answer_log(job: Task, weights: Mapping[str, str], how: str, fits: Callable[[Any], bool]) -> Kept:
    """Open the log of a model's answers.

    Args:
        job: names and config.
        weights: revision and hashes of the weights.
        how: name of the way of asking.
        fits: answer -> whether it is one of this kind.

    Raises:
        InputError: see `Kept`.
    """
    llm = job.resolved["llm"]
    chosen = {name: value for name, value in llm.items() if (name, value) not in ADDED.items()}
    name = cache.fingerprint([decisive(chosen), weights, how])
    return Kept(Path(job.cfg.store.answers) / f"{name}.jsonl", fits)


def plan(job: Task) -> Planned:
    """Read the inputs and say what the job would do, without asking the model.

    Raises:
        InputError: see `prepare`.
    """
    return Planned(job.label, f"to do: {prepare(job).inputs.summary}")


def key(prepared: Prepared) -> str:
    """Return the hash of all that decides a job's numbers: config, inputs, weights, versions of the code."""
    job, versions = prepared.job, study_of(prepared.job.cfg.task).versions()
    return cache.fingerprint([job.config_hash, prepared.inputs.hashes, prepared.weights, versions])


def perform(prepared: Prepared, run: tracking.Run, job_key: str = "") -> pd.DataFrame:
    """Ask the model, score its answers, write `results/`, and log all of it.

    Args:
        prepared: the job.
        run: its MLflow run.
        job_key: its key; empty if it is not known yet.

    Returns:
        The job's analyses.csv.
    """
    job, inputs = prepared.job, prepared.inputs
    hashes = {f"input.{name}": digest for name, digest in inputs.hashes.items()}
    weights = {f"weights.{name}": value for name, value in prepared.weights.items()}
    run.log(tags={**hashes, **inputs.tags, **weights})
    run.inputs(inputs.hashes)
    result = study_of(job.cfg.task).run(job.cfg, inputs, prepared.generator, job.columns)
    names = {"model": job.model, "task": job.exp}
    sheets = {name: results.named(names, sheet) for name, sheet in result.sheets.items()}
    results.write(job.output, results.named(job.columns, result.analyses), result.tables, sheets)
    tags = {"key": job_key or key(prepared), "results": results.digest(job.output), **result.tags}
    run.log(tags=tags, metrics=result.metrics)
    run.artifacts(job.output / results.FOLDER, results.FOLDER)
    return results.read(job.output)
