"""What a job of poems does: faces, poems, scores, results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd

from src import configs, stimuli, tracking
from src.encoders.processor import check_precision
from src.errors import InputError, NotApplicable
from src.generators import hub_weights, poem_prompts, tiny_vlm
from src.generators.multimodal import Multimodal
from src.jobs import generator_job
from src.jobs.generator_job import Task
from src.jobs.plan import Planned
from src.storage import results
from src.studies.poems import comparison as compared

log = logging.getLogger(__name__)

# Rooms whose code decides what is made of poems.
PARTS = ("metrics", "inference", "generators", "studies.poems")


@dataclass(frozen=True)
class Prepared:
    """A job whose faces are there and suffice.

    Attributes:
        job: which.
        faces: the stimuli.
        chosen: those of them that poems are written about.
        weights: of the model that writes: revision, hash.
        model: reads it.
    """

    job: Task
    faces: stimuli.Table
    chosen: pd.DataFrame
    weights: Mapping[str, str]
    model: Callable[[], Multimodal]


def prepare(job: Task) -> Prepared:
    """See that faces and weights are there.

    Raises:
        InputError: they are not; `NotApplicable` where another model or dataset might be served.
    """
    cfg, task = job.cfg, job.cfg.task
    assert isinstance(task, configs.PoemConfig)
    poem_prompts.checked(task)
    if not isinstance(cfg.llm, configs.MultimodalConfig):
        raise NotApplicable(f"task={job.exp}: needs a model that sees. Say llm=vlm_hf llm.id=OWNER/NAME.")
    if cfg.faces is None:
        raise InputError(f"task={job.exp}: no faces. Name a dataset that has some: dataset=demo.")
    weights, model = _opened(cfg, cfg.llm)
    faces = stimuli.faces(cfg.faces, cfg.store)
    log.info("%s", faces.statement())
    return Prepared(job, faces, compared.chosen(faces, task.faces, cfg.seed), weights, model)


def _opened(
    cfg: configs.GenerateConfig, llm: configs.MultimodalConfig
) -> tuple[dict[str, str], Callable[[], Multimodal]]:
    if isinstance(llm, configs.TinyVlmConfig):
        return {"revision": "random"}, partial(tiny_vlm.load, llm)
    assert isinstance(llm, configs.VlmHfConfig)
    check_precision("llm.precision", llm.precision, cfg.trainer.accelerator)
    found = hub_weights.find(llm)
    return {**found.said(), **found.files()}, partial(
        hub_weights.load_multimodal, found, generator_job.device(cfg)
    )


def plan(job: Task) -> Planned:
    """What a job would do: its faces are read, nothing is written about them.

    Raises:
        InputError: see `prepare`.
    """
    return Planned(job.label, f"to do: poems about {len(prepare(job).chosen)} faces")


def key(prepared: Prepared) -> str:
    """Hash of all that decides a job's numbers."""
    return generator_job.key(prepared.job, {"faces": prepared.faces.hash}, prepared.weights, PARTS)


def perform(prepared: Prepared, run: tracking.Run) -> pd.DataFrame:
    """Have poems written, compare groups, write `results/`, and log all of it.

    Returns:
        The job's analyses.csv.
    """
    job, faces, task = prepared.job, prepared.chosen, prepared.job.cfg.task
    assert isinstance(task, configs.PoemConfig)
    about = {"input.faces": prepared.faces.hash, "used.faces": prepared.faces.statement()}
    run.log(tags={**about, **{f"weights.{name}": said for name, said in prepared.weights.items()}})
    run.inputs({"faces": prepared.faces.hash})
    start = time.perf_counter()
    model = prepared.model()
    with generator_job.kept(job, prepared.weights, "poems", poem_prompts.is_poem) as kept:
        words = poem_prompts.on_words(model, task, kept)
        pools = poem_prompts.pools(words, model.special)
        scores = poem_prompts.on_faces(model, task, faces, pools, kept)
    written = time.perf_counter() - start
    notes = [f"pool {pool}, shared {shared}: no token" for (pool, shared), ids in pools.items() if not ids]
    for note in notes:
        log.warning("%s is left: it has no figures", note)
    sizes = {which: len(ids) for which, ids in pools.items()}
    drawn = {"permutations": task.permutations, "bootstrap": task.bootstrap, "seed": job.cfg.seed}
    rows = compared.compare(faces, scores, sizes, **drawn).assign(most=task.most)
    tables = {"scores": scores, "words": words, "pools": _pools(model, pools)}
    results.write(job.output, results.named(job.columns, rows.reset_index(drop=True)), tables)
    told = {
        "key": key(prepared),
        "results": results.digest(job.output),
        "notes": "; ".join([*(f"faces: {note}" for note in prepared.faces.notes), *notes]),
    }
    whole = {"faces": len(faces), "tokens": float(scores["tokens"].mean()), "answer_seconds": written}
    run.log(tags=told, metrics={**_metrics(rows), **whole})
    run.artifacts(job.output / results.FOLDER, results.FOLDER)
    return results.read(job.output)


def _pools(model: Multimodal, pools: poem_prompts.Pools) -> pd.DataFrame:
    """Each token of each pool: `pool`, `token`, `text`, and whether it is in both."""
    rows = [
        {"pool": pool, "token": token, "text": model.processor.tokenizer.decode([token])}
        | {"in_both": token not in pools[pool, "removed"]}
        for pool, shared in pools
        if shared == "kept"
        for token in pools[pool, shared]
    ]
    return pd.DataFrame(rows, columns=["pool", "token", "text", "in_both"])


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    """Mean gap over pairs of groups, of each pool that has one."""
    means = rows.groupby("cles_gap." + rows["pool"] + "." + rows["shared"])["cles_gap"].mean().dropna()
    return {str(name): float(mean) for name, mean in means.items()}
