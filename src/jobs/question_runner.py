"""What a job of a generative model does: items, answers, scores, results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from src import configs, tracking
from src.encoders.processor import check_precision
from src.errors import InputError, NotApplicable
from src.generators import (
    answers,
    api_server,
    domains,
    hub_weights,
    item_composition,
    items,
    planted,
    prompts,
    scoring,
    tiny,
)
from src.generators.causal import Causal
from src.jobs import generator_job
from src.jobs.generator_job import Task, device
from src.jobs.plan import Planned
from src.storage import cache, results
from src.studies.subtler.terminal import reasons

log = logging.getLogger(__name__)

# Names in src/versions.yaml of what makes and scores the answers.
PARTS = ("metrics", "generators", "scoring", "studies.subtler")
LOGGED = ("tau_c", "tau_b", "del_PL", "del_NL", "del_NuL")


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
    if isinstance(llm, configs.MultimodalConfig):
        raise NotApplicable(f"task={job.exp}: asks models of texts alone. Say task=poem, or another llm.")
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
            is asked for likelihoods; or this machine does not compute in the model's precision.
    """
    llm = cfg.llm
    if isinstance(llm, configs.TinyConfig):
        return {"revision": "random"}, partial(tiny.load, llm)
    if isinstance(llm, configs.HfConfig):
        check_precision("llm.precision", llm.precision, cfg.trainer.accelerator)
        found = hub_weights.find(llm)
        return {**found.said(), **found.files()}, partial(hub_weights.load, found, device(cfg))
    if isinstance(llm, configs.ServerConfig) and cfg.answer != "generate":
        raise InputError(f"answer={cfg.answer}: a server gives free answers only. Say answer=generate.")
    return {}, None


def _file(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    return items.read(path), {path.name: cache.file_hash(path)}


def _composed(task: configs.SubtlerConfig, seed: int) -> tuple[pd.DataFrame, dict[str, str]]:
    folder = configs.CONF / "domain" / task.language
    paths = [Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml" for name in task.domains]
    parts = [item_composition.compose(domains.read(path), count=task.count, seed=seed) for path in paths]
    table = pd.concat(parts, ignore_index=True)
    return items.of(table, folder), {path.name: cache.file_hash(path) for path in paths}


def plan(job: Task) -> Planned:
    """What a job would do: its items are read, nothing is asked.

    Raises:
        InputError: see `prepare`.
    """
    return Planned(job.label, f"to do: {len(prepare(job).items)} items")


def key(prepared: Prepared) -> str:
    """Hash of all that decides a job's numbers."""
    return generator_job.key(prepared.job, prepared.inputs, prepared.weights, PARTS)


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
    score = partial(
        scoring.score,
        answered,
        bootstrap=task.bootstrap,
        seed=job.cfg.seed,
        max_unmatched=task.max_unmatched,
    )
    rows = pd.concat(map(score, codings), ignore_index=True)
    seconds = time.perf_counter() - start - asked
    shares = _shares(coded["published"])
    whole = results.named({"model": job.model, "task": job.exp}, rows)
    named = results.named(job.columns, rows)
    results.write(
        job.output,
        named,
        {"answers": _answers(coded)},
        sheets={"subtler": whole},
    )
    told = {"key": key(prepared), "results": results.digest(job.output), **_note(named)}
    figures = {"items": len(prepared.items), **shares, "answer_seconds": asked, **figures}
    figures |= {"analysis_seconds": seconds}
    run.log(tags=told, metrics={**_metrics(rows), **figures})
    run.artifacts(job.output / results.FOLDER, results.FOLDER)
    return results.read(job.output)


def _answered(prepared: Prepared) -> tuple[pd.DataFrame, dict[str, float]]:
    job, llm = prepared.job, prepared.job.cfg.llm
    if isinstance(llm, configs.RecordedConfig):
        return prepared.items, {}
    if isinstance(llm, configs.PlantedConfig):
        return planted.answers(prepared.items, lean=llm.lean, seed=job.cfg.seed), {}
    free = job.cfg.answer == "generate"
    asked = (prepared.items, prepared.question)
    how, fits = ("free", answers.is_free) if free else ("likelihood", answers.is_weighed)
    with generator_job.kept(job, prepared.weights, how, fits) as kept:
        if isinstance(llm, configs.ServerConfig):
            proof = answers.answered_before(*asked, seed=job.cfg.seed, kept=kept)
            ask = partial(api_server.answers, llm, proof=proof)
            return answers.free(ask, *asked, seed=job.cfg.seed, kept=kept)
        assert isinstance(llm, configs.CausalConfig)
        assert prepared.model is not None
        model = prepared.model()
        if free:
            return answers.free(partial(model.answers, most=llm.most), *asked, seed=job.cfg.seed, kept=kept)
        per_token = job.cfg.answer == "likelihood_per_token"
        return answers.likeliest(model, *asked, per_token=per_token, kept=kept)


def _answers(answered: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    # One row per item, with what each coding makes of its answer.
    first, *_ = answered.values()
    return first.drop(columns="y").assign(**{f"y_{coding}": rows["y"] for coding, rows in answered.items()})


def _shares(answers: pd.DataFrame) -> dict[str, float]:
    """Return the shares of answers that match no option, and that a server did not give."""
    unanswered = answers["unanswered"].notna().mean() if "unanswered" in answers else 0.0
    return {"share_unmatched": float((~answers["matched"]).mean()), "share_unanswered": float(unanswered)}


def _note(rows: pd.DataFrame) -> dict[str, str]:
    """Return MLflow's note on strata without τ-c; empty where each has one."""
    lines = reasons(rows)
    return {"mlflow.note.content": "\n\n".join(lines)} if lines else {}


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    whole = rows[(rows["domain"] == scoring.ALL) & (rows["gender"] == scoring.ALL)]
    found = {
        f"{name}.{row['direction']}.{row['coding']}": float(row[name])
        for row in whole.to_dict("records")
        for name in LOGGED
    }
    return {name: value for name, value in found.items() if value == value}
