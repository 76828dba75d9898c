"""What a job of a generative model does: items, answers, scores, results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from omegaconf import DictConfig

from src import artifacts, configs, logged, results, tracking
from src.asked import family
from src.errors import InputError
from src.generative import answers, compose, domains, items, prompts, published, scoring, server, tiny
from src.generative.causal import Causal
from src.generative.kept import Kept
from src.jobs import Named, decisive, differences, resolve
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
        return cls(
            cfg=cfg,
            resolved=resolved,
            exp=choices["task"],
            paper=cfg.task.paper,
            model=_model(cfg, choices["llm"])
            + differences("llm", choices["llm"], resolved["llm"], defaults=cfg.llm),
            dataset=family(choices["task"]),
            debias="none",
            protocol=("recorded" if isinstance(cfg.llm, configs.RecordedConfig) else cfg.answer)
            + differences("task", choices["task"], resolved["task"]),
            output=Path(output),
        )


def _model(cfg: configs.GenerateConfig, choice: str) -> str:
    if isinstance(cfg.llm, configs.RecordedConfig):
        return cfg.llm.name or Path(cfg.llm.path).stem
    return cfg.llm.name or choice


@dataclass(frozen=True)
class Prepared:
    """A job whose items are there.

    Attributes:
        job: which.
        items: see `items.read`.
        inputs: SHA-256 of each file that they are of, or are composed of, by its name.
        question: what is asked of each.
        weights: of the model that answers: revision, hash; empty where the answers are there.
        model: reads it; None where a server has it, or the answers are there.
    """

    job: Task
    items: pd.DataFrame
    inputs: Mapping[str, str]
    question: str
    weights: Mapping[str, str]
    model: Callable[[], Causal] | None


def prepare(job: Task) -> Prepared:
    """Read or compose the items.

    Raises:
        InputError: they cannot be read or composed, or hold no answers where recorded ones are asked for.
    """
    task, llm = job.cfg.task, job.cfg.llm
    assert isinstance(task, configs.SubtlerConfig)
    prompts.checked(task.question)
    if isinstance(llm, configs.RecordedConfig):
        found, inputs = _file(Path(llm.path))
        if "response" not in found:
            raise InputError(
                f"{llm.path}: no column response. Name a file that holds answers beside the items."
            )
    elif task.path is not None:
        found, inputs = _file(Path(task.path))
    else:
        found, inputs = _composed(task, job.cfg.seed)
    log.info("%s: %d items", ", ".join(inputs), len(found))
    weights, model = _opened(job.cfg)
    return Prepared(job, found, inputs, task.question, weights, model)


def _opened(cfg: configs.GenerateConfig) -> tuple[dict[str, str], Callable[[], Causal] | None]:
    """What is known of the weights of a model, and what reads it.

    Raises:
        InputError: they are neither there nor to be had, or are not those that were asked for; or a server
            is asked for likelihoods.
    """
    llm = cfg.llm
    if isinstance(llm, configs.TinyConfig):
        return {"revision": "random"}, partial(tiny.load, llm)
    if isinstance(llm, configs.HfConfig):
        found = published.find(llm)
        device = torch.device("cuda" if _wants_gpu(cfg.trainer.accelerator) else "cpu")
        return {**found.said(), **found.files()}, partial(published.load, found, device)
    if isinstance(llm, configs.ServerConfig) and cfg.answer != "generate":
        raise InputError(f"answer={cfg.answer}: a server gives free answers only. Say answer=generate.")
    return {}, None


def _wants_gpu(accelerator: str) -> bool:
    return accelerator == "gpu" or (accelerator == "auto" and torch.cuda.is_available())


def _file(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    return items.read(path), {path.name: artifacts.file_hash(path)}


def _composed(task: configs.SubtlerConfig, seed: int) -> tuple[pd.DataFrame, dict[str, str]]:
    folder = configs.CHECKOUT / "conf" / "domain" / task.language
    paths = [Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml" for name in task.domains]
    parts = [compose.compose(domains.read(path), count=task.count, seed=seed) for path in paths]
    table = pd.concat(parts, ignore_index=True)
    return items.of(table, folder), {path.name: artifacts.file_hash(path) for path in paths}


def plan(job: Task) -> Planned:
    """What a job would do: its items are read, nothing is asked.

    Raises:
        InputError: see `prepare`.
    """
    return Planned(job.label, f"to do: {len(prepare(job).items)} items")


def key(prepared: Prepared) -> str:
    """Hash of all that decides a job's numbers: its config, its items and the code (DESIGN.md, "Resume")."""
    sources = sorted(path for room in DECISIVE for path in (SOURCES / room).rglob("*.py"))
    return artifacts.fingerprint(
        [prepared.job.config_hash, prepared.inputs, prepared.weights, artifacts.source_hash(*sources)]
    )


def perform(prepared: Prepared, run: tracking.Run) -> pd.DataFrame:
    """Score the answers, write `results/`, and log all of it.

    Returns:
        The job's analyses.csv.
    """
    job, task = prepared.job, prepared.job.cfg.task
    assert isinstance(task, configs.SubtlerConfig)
    run.log(tags={f"input.{name}": digest for name, digest in prepared.inputs.items()})
    run.log(tags={f"weights.{name}": said for name, said in prepared.weights.items()})
    run.inputs(prepared.inputs)
    start = time.perf_counter()
    answered, figures = _answered(prepared)
    asked = time.perf_counter() - start
    codings = ("published", "corrected") if task.stereotype == "positive" else ("published",)
    coded = {coding: scoring.coded(answered, coding) for coding in codings}
    score = partial(scoring.score, answered, bootstrap=task.bootstrap, seed=job.cfg.seed)
    rows = pd.concat(map(score, codings), ignore_index=True)
    seconds = time.perf_counter() - start - asked
    unmatched = float((~coded["published"]["matched"]).mean())
    results.write(job.output, results.named(job.columns, rows), {"answers": _answers(coded)})
    told = {"key": key(prepared), "results": results.digest(job.output)}
    whole = {"items": len(prepared.items), "share_unmatched": unmatched, "answer_seconds": asked}
    whole |= {"analysis_seconds": seconds, **figures}
    run.log(tags=told, metrics={**_metrics(rows), **whole})
    run.artifacts(job.output / results.FOLDER, results.FOLDER)
    return results.read(job.output)


def _answered(prepared: Prepared) -> tuple[pd.DataFrame, dict[str, float]]:
    job, llm = prepared.job, prepared.job.cfg.llm
    if isinstance(llm, configs.RecordedConfig):
        return prepared.items, {}
    free = job.cfg.answer == "generate"
    own = [decisive(job.resolved["llm"]), prepared.weights, "free" if free else "likelihood"]
    asked = (prepared.items, prepared.question)
    with Kept(Path(job.cfg.store.answers) / f"{artifacts.fingerprint(own)}.jsonl") as kept:
        if isinstance(llm, configs.ServerConfig):
            return answers.free(partial(server.answers, llm), *asked, seed=job.cfg.seed, kept=kept)
        assert isinstance(llm, configs.CausalConfig)
        assert prepared.model is not None
        model = prepared.model()
        if free:
            ask = partial(model.answers, most=llm.most)
            return answers.free(ask, *asked, seed=job.cfg.seed, kept=kept)
        per_token = job.cfg.answer == "likelihood_per_token"
        return answers.likeliest(model, *asked, per_token=per_token, kept=kept)


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
