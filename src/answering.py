"""What a job of a generative model does: items, answers, scores, results."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from src import artifacts, configs, logged, results, tracking
from src.errors import InputError
from src.generative import items, scoring
from src.jobs import Named, differences, resolve
from src.plan import Planned

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parent
# Rooms whose code decides what is made of answers.
DECISIVE = ("metrics", "generative")
LOGGED = ("tau_c", "tau_b", "del_PL", "del_NL", "del_NuL")


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
        assert isinstance(cfg.llm, configs.RecordedConfig)
        name = cfg.llm.name or Path(cfg.llm.path).stem
        return cls(
            cfg=cfg,
            resolved=resolved,
            exp=choices["task"],
            paper=cfg.task.paper,
            model=name + differences("llm", choices["llm"], resolved["llm"], defaults=cfg.llm),
            dataset=choices["task"],
            debias="none",
            protocol="recorded" + differences("task", choices["task"], resolved["task"]),
            output=Path(output),
        )


@dataclass(frozen=True)
class Prepared:
    """A job whose items are there.

    Attributes:
        job: which.
        items: see `items.read`.
        hash: SHA-256 of the file that they are of.
    """

    job: Task
    items: pd.DataFrame
    hash: str


def prepare(job: Task) -> Prepared:
    """Read the items.

    Raises:
        InputError: they cannot be read, or hold no answers.
    """
    assert isinstance(job.cfg.llm, configs.RecordedConfig)
    path = Path(job.cfg.llm.path)
    found = items.read(path)
    if "response" not in found:
        raise InputError(
            f"{path}: no column `response`. Name a file that holds the answers beside the items."
        )
    log.info("%s: %d items, %d answers", path.name, len(found), found["response"].notna().sum())
    return Prepared(job, found, artifacts.file_hash(path))


def plan(job: Task) -> Planned:
    """What a job would do: its items are read, nothing is asked.

    Raises:
        InputError: see `prepare`.
    """
    return Planned(job.label, f"to do: {len(prepare(job).items)} items")


def key(prepared: Prepared) -> str:
    """Hash of all that decides a job's numbers: its config, its items and the code (DESIGN.md, "Resume")."""
    sources = sorted(path for room in DECISIVE for path in (SOURCES / room).rglob("*.py"))
    return artifacts.fingerprint([prepared.job.config_hash, prepared.hash, artifacts.source_hash(*sources)])


def perform(prepared: Prepared, run: tracking.Run) -> pd.DataFrame:
    """Score the answers, write `results/`, and log all of it.

    Returns:
        The job's analyses.csv.
    """
    job, task = prepared.job, prepared.job.cfg.task
    assert isinstance(task, configs.SubtlerConfig)
    run.log(tags={"input.items": prepared.hash})
    run.inputs({f"{job.dataset} items": prepared.hash})
    start = time.perf_counter()
    codings = ("published", "corrected") if task.stereotype == "positive" else ("published",)
    answered = {coding: scoring.coded(prepared.items, coding) for coding in codings}
    score = partial(scoring.score, prepared.items, bootstrap=task.bootstrap, seed=job.cfg.seed)
    rows = pd.concat(map(score, codings), ignore_index=True)
    seconds = time.perf_counter() - start
    unmatched = float((~answered["published"]["matched"]).mean())
    results.write(job.output, results.named(job.columns, rows), {"answers": _answers(answered)})
    told = {"key": key(prepared), "results": results.digest(job.output)}
    whole = {"items": len(prepared.items), "share_unmatched": unmatched, "analysis_seconds": seconds}
    run.log(tags=told, metrics={**_metrics(rows), **whole})
    run.artifacts(job.output / results.FOLDER, results.FOLDER)
    return results.read(job.output)


def _answers(answered: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    # One row per item, with what each coding makes of its answer.
    first, *_ = answered.values()
    return first.drop(columns="y").assign(**{f"y_{coding}": rows["y"] for coding, rows in answered.items()})


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    whole = rows[(rows["domain"] == scoring.ALL) & (rows["gender"] == scoring.ALL)]
    found = {
        f"{name}.{row['direction']}.{row['coding']}": float(row[name])
        for row in whole.to_dict("records")
        for name in LOGGED
    }
    return {name: value for name, value in found.items() if value == value}


def tags(job: Task) -> dict[str, str]:
    """Tags of a run that are known before any work."""
    named = {name: str(value) for name, value in job.columns.items()}
    return {**named, **logged.provenance(), "kind": "job"}


def params(job: Task) -> dict[str, object]:
    """Every choice, by its name on the command line."""
    return logged.flat(job.resolved)
