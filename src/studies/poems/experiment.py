"""Have poems written about faces, and compare groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import pandas as pd

from src import configs, stimuli
from src.errors import InputError, NotApplicable
from src.generators.multimodal import Multimodal
from src.studies.generator_protocol import Generator, GeneratorResult, Inputs
from src.studies.poems import comparison, poem_prompts
from src.studies.poems.config import PoemConfig

log = logging.getLogger(__name__)


def inputs(cfg: configs.GenerateConfig, task: str) -> Inputs:
    """Read the faces, and draw those that poems are written about.

    Raises:
        InputError: a prompt does not fit, or there are no faces, or too few of a group.
        NotApplicable: the model reads no pictures, or the dataset has one group alone.
    """
    assert isinstance(cfg.task, PoemConfig)
    poem_prompts.checked(cfg.task)
    if not isinstance(cfg.llm, configs.MultimodalConfig):
        raise NotApplicable(f"task={task}: needs a model that sees. Say llm=vlm_hf llm.id=OWNER/NAME.")
    if cfg.faces is None:
        raise InputError(f"task={task}: no faces. Name a dataset that has some: dataset=demo.")
    faces = stimuli.faces(cfg.faces, cfg.store)
    log.info("%s", faces.statement())
    rows = comparison.chosen(faces, cfg.task.faces, cfg.seed)
    return Inputs(
        rows=rows,
        hashes={"faces": faces.hash},
        summary=f"poems about {len(rows)} faces",
        tags={"used.faces": faces.statement()},
        notes=tuple(f"faces: {note}" for note in faces.notes),
    )


def run(
    cfg: configs.GenerateConfig,
    inputs: Inputs,
    generator: Generator,
    columns: Mapping[str, object],  # noqa: ARG001
) -> GeneratorResult:
    """Write poems on words and about faces, score them, and compare groups."""
    task, faces = cfg.task, inputs.rows
    assert isinstance(task, PoemConfig)
    assert generator.load is not None
    start = time.perf_counter()
    model = generator.load()
    assert isinstance(model, Multimodal)
    with generator.log("poems", poem_prompts.is_poem) as log_of_poems:
        words = poem_prompts.on_words(model, task, log_of_poems)
        pools = poem_prompts.pools(words, model.special)
        scores = poem_prompts.on_faces(model, task, faces, pools, log_of_poems)
    seconds = time.perf_counter() - start
    notes = [f"pool {pool}, shared {shared}: no token" for (pool, shared), ids in pools.items() if not ids]
    for note in notes:
        log.warning("%s is left: it has no figures", note)
    sizes = {which: len(ids) for which, ids in pools.items()}
    draws = {"permutations": task.permutations, "bootstrap": task.bootstrap, "seed": cfg.seed}
    rows = comparison.compare(faces, scores, sizes, **draws).assign(most=task.most)
    totals = {"faces": len(faces), "tokens": float(scores["tokens"].mean()), "answer_seconds": seconds}
    return GeneratorResult(
        analyses=rows.reset_index(drop=True),
        tables={"scores": scores, "words": words, "pools": _pools(model, pools)},
        metrics={**_metrics(rows), **totals},
        tags={"notes": "; ".join([*inputs.notes, *notes])},
    )


def _pools(model: Multimodal, pools: poem_prompts.Pools) -> pd.DataFrame:
    """Return each token of each pool: `pool`, `token`, `text`, and whether it is in both."""
    rows = [
        {"pool": pool, "token": token, "text": model.processor.tokenizer.decode([token])}
        | {"in_both": token not in pools[pool, "removed"]}
        for pool, shared in pools
        if shared == "kept"
        for token in pools[pool, shared]
    ]
    return pd.DataFrame(rows, columns=["pool", "token", "text", "in_both"])


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    """Return the mean gap over pairs of groups, of each pool that has one."""
    means = rows.groupby("cles_gap." + rows["pool"] + "." + rows["shared"])["cles_gap"].mean().dropna()
    return {str(name): float(mean) for name, mean in means.items()}
