"""One generative model x one task: how it is named, and where it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from src import configs
from src.generators.answer_log import Kept
from src.jobs import run_metadata
from src.jobs.identity import Named, decisive, differences, family, resolve
from src.storage import cache
from src.storage.versions import declared

# Of a dataset; `faces` alone decides numbers, of a task that shows some.
SHOWN = ("dataset", "demo", "faces", "scenes", "words", "labels", "templates", "taxonomy")

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
        shows = isinstance(cfg.task, configs.PoemConfig)
        idle = {*SHOWN, "answer"} - {"faces"} if shows else SHOWN
        resolved = {name: value for name, value in resolved.items() if name not in idle}
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
            protocol=_protocol(cfg, choices.get("dataset", ""))
            + differences("task", choices["task"], resolved["task"], "task" if shows else None),
            output=Path(output),
        )


def _model(cfg: configs.GenerateConfig, choice: str) -> str:
    if isinstance(cfg.llm, configs.RecordedConfig):
        return cfg.llm.name or Path(cfg.llm.path).stem
    return cfg.llm.name or choice


def _protocol(cfg: configs.GenerateConfig, dataset: str) -> str:
    if isinstance(cfg.task, configs.PoemConfig):
        return f"greedy+dataset={dataset}"
    return "recorded" if isinstance(cfg.llm, configs.RecordedConfig) else cfg.answer


def device(cfg: configs.GenerateConfig) -> torch.device:
    """Where a model computes."""
    wanted = cfg.trainer.accelerator
    gpu = wanted == "gpu" or (wanted == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if gpu else "cpu")


def kept(job: Task, weights: Mapping[str, str], how: str, fits: Callable[[Any], bool]) -> Kept:
    """What a model said before, and where more of it goes as it comes.

    Args:
        job: whose model.
        weights: revision and hash of them.
        how: it was asked.
        fits: whether something can be an answer to that.

    Raises:
        InputError: see `Kept`.
    """
    llm = job.resolved["llm"]
    chosen = {name: value for name, value in llm.items() if (name, value) not in ADDED.items()}
    own = [decisive(chosen), weights, how]
    return Kept(Path(job.cfg.store.answers) / f"{cache.fingerprint(own)}.jsonl", fits)


def key(job: Task, inputs: Mapping[str, str], weights: Mapping[str, str], parts: tuple[str, ...]) -> str:
    """Hash of all that decides a job's numbers: its config, its items, the versions of what computes them.

    Args:
        job: which.
        inputs: hash of each thing that is shown.
        weights: of the model.
        parts: names in `src/versions.yaml` of what makes and scores the answers.
    """
    return cache.fingerprint([job.config_hash, inputs, weights, declared(*parts)])


def tags(job: Task) -> dict[str, str]:
    """Tags of a run that are known before any work."""
    named = {name: str(value) for name, value in job.columns.items()}
    return {**named, **run_metadata.provenance(), "kind": "job"}


def params(job: Task) -> Mapping[str, object]:
    """Every choice, as the config nests them."""
    return job.resolved
