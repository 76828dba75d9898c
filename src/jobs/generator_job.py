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
from src.jobs.identity import NamedConfig, describe_differences, resolve, select_hashed_fields, task_family
from src.jobs.plan import JobPlan
from src.jobs.previous_runs import find_finished_run
from src.jobs.runner import Runner
from src.storage import cache, results
from src.storage.answer_log import AnswerLog
from src.storage.versions import declared_versions
from src.studies.generator_protocol import Generator, Inputs, load_study

# Config fields that only some studies use; a study lists the fields that it uses in `GeneratorStudy.fields`.
STUDY_SPECIFIC_FIELDS = (
    "answer",
    "dataset",
    "demo",
    "faces",
    "scenes",
    "words",
    "labels",
    "templates",
    "taxonomy",
)

# Fields added later, with their defaults: at its default, a field does not enter the log's name, so that
# older logs remain usable.
DEFAULTS_OF_NEW_FIELDS = {"limit": "max_tokens", "temperature": 0.0}


@dataclass(frozen=True)
class GeneratorJob(NamedConfig):
    """One generative model x one task."""

    cfg: configs.GenerateConfig

    @classmethod
    def of(cls, composed: DictConfig, choices: Mapping[str, str], output: str) -> GeneratorJob:
        """Build the job of a composed config; raise `InputError` if the config is invalid.

        Args:
            composed: config without Hydra's settings.
            choices: config group -> chosen YAML.
            output: folder of the job.
        """
        cfg, resolved = resolve(composed)
        assert isinstance(cfg, configs.GenerateConfig)
        configs.check(cfg)
        study, path = load_study(cfg.task), getattr(cfg.llm, "path", None)
        resolved = {
            name: value
            for name, value in resolved.items()
            if name not in STUDY_SPECIFIC_FIELDS or name in study.fields
        }
        return cls(
            cfg=cfg,
            resolved=resolved,
            study=cfg.task.study,
            exp=choices["task"],
            paper=cfg.task.paper,
            model=(cfg.llm.name or (choices["llm"] if path is None else Path(path).stem))
            + describe_differences("llm", choices["llm"], resolved["llm"], defaults=cfg.llm),
            dataset=task_family(choices["task"]),
            debias="none",
            perturb=configs.NO_PERTURBATION,
            protocol=study.protocol_name(cfg, choices.get("dataset", ""))
            + describe_differences("task", choices["task"], resolved["task"], "task"),
            output=Path(output),
        )


@dataclass(frozen=True)
class PreparedGeneratorJob:
    """A generator job whose inputs are loaded and whose weights are located."""

    job: GeneratorJob  # names and config
    inputs: Inputs  # items or faces of the questions
    # Revision and hashes of the weights; empty for a server and for recorded answers.
    weights_identity: Mapping[str, str]
    generator: Generator  # model and log of its answers


def prepare(job: GeneratorJob) -> PreparedGeneratorJob:
    """Check the settings, read the inputs and locate the weights.

    Raises `InputError` (`NotApplicable` if another model or dataset might work).
    """
    model_weights.check_device(job.cfg)
    inputs = load_study(job.cfg.task).inputs(job.cfg, job.exp)
    weights_identity, load = model_weights.find_weights(job.cfg)
    return PreparedGeneratorJob(
        job, inputs, weights_identity, Generator(load, partial(open_answer_log, job, weights_identity))
    )


def open_answer_log(
    job: GeneratorJob,
    weights_identity: Mapping[str, str],
    question_format: str,
    is_valid: Callable[[Any], bool],
) -> AnswerLog:
    """Open the log of a model's answers to questions of a format; `is_valid` checks a logged answer."""
    fields = {
        name: value
        for name, value in job.resolved["llm"].items()
        if (name, value) not in DEFAULTS_OF_NEW_FIELDS.items()
    }
    if "sha256" in fields:  # the expected hash; that of the weights is in `weights_identity`
        fields["sha256"] = ""
    identity: list[object] = [select_hashed_fields(fields), weights_identity, question_format]
    version = declared_versions("generators")["generators"]
    identity += [version] if version > 1 else []  # logs of version 1 are named without it
    return AnswerLog(Path(job.cfg.store.answers) / f"{cache.fingerprint(identity)}.jsonl", is_valid)


def plan(job: GeneratorJob) -> JobPlan:
    """Plan a job from finished runs and stored inputs and weights; fetch none, and do not query the model."""
    try:
        with cache.forbid_building():
            prepared = prepare(job)
    except cache.NotStored as error:
        return JobPlan(job.label, f"to do; not stored yet: {error}")
    if job.cfg.resume and (run := find_finished_run(job, compute_key(prepared))):
        return JobPlan(job.label, f"finished, in run {run}")
    return JobPlan(job.label, f"to do: {prepared.inputs.summary}")


def compute_key(prepared: PreparedGeneratorJob) -> str:
    """Return the hash of all that determines a job's numbers: config, inputs, weights, code versions."""
    job, versions = prepared.job, load_study(prepared.job.cfg.task).versions()
    return cache.fingerprint([job.config_hash, prepared.inputs.hashes, prepared.weights_identity, versions])


def perform(prepared: PreparedGeneratorJob, run: tracking.Run, job_key: str = "") -> pd.DataFrame:
    """Query the model, score its answers, write `results/`, log all, and return the job's analyses.csv."""
    job, inputs = prepared.job, prepared.inputs
    tags = {f"input.{name}": digest for name, digest in inputs.hashes.items()}
    tags |= {**inputs.tags, **{f"weights.{name}": value for name, value in prepared.weights_identity.items()}}
    run.log(tags=tags)
    run.log_inputs(inputs.hashes)
    result = load_study(job.cfg.task).run(job.cfg, inputs, prepared.generator, job.columns)
    names = {"model": job.model, "task": job.exp}
    csvs = {name: results.with_job_columns(names, table) for name, table in result.csvs.items()}
    results.write(job.output, results.with_job_columns(job.columns, result.analyses), result.tables, csvs)
    tags = {
        "key": job_key or compute_key(prepared),
        "results": results.compute_digest(job.output),
        **result.tags,
    }
    run.log(tags=tags, metrics=result.metrics)
    run.log_artifacts(job.output / results.FOLDER, results.FOLDER)
    return results.read(job.output)


def make_runner() -> Runner[GeneratorJob, PreparedGeneratorJob]:
    """Return the runner of jobs of generative models."""
    return Runner(GeneratorJob.of, plan, prepare, compute_key, perform)
