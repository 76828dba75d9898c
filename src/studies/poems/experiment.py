"""Generate poems about faces, and compare groups."""

import logging
import time
from collections.abc import Mapping

import pandas as pd

from src import configs, stimuli
from src.errors import InputError, NotApplicable
from src.generators.multimodal import Multimodal
from src.studies.generator_protocol import Generator, GeneratorResult, Inputs
from src.studies.poems import comparison, poem_generation
from src.studies.poems.config import PoemConfig

log = logging.getLogger(__name__)


def inputs(cfg: configs.GenerateConfig, task: str) -> Inputs:
    """Load the faces, and draw those to write poems about.

    Raises:
        InputError: a prompt or the words are incomplete, the dataset has no faces, or a group has only one.
        NotApplicable: the model is not multimodal, or the dataset has a single group.
    """
    assert isinstance(cfg.task, PoemConfig)
    poem_generation.check_task(cfg.task)
    if not isinstance(cfg.llm, configs.MultimodalConfig):
        raise NotApplicable(f"task={task}: needs a multimodal model. Use llm=vlm_hf llm.id=OWNER/NAME.")
    if cfg.faces is None:
        raise InputError(f"task={task}: the dataset has no faces. Use dataset=demo, or another with faces.")
    faces = stimuli.load_table("faces", cfg.faces, cfg.store)
    log.info("%s", faces.statement())
    rows = comparison.draw_faces(faces, cfg.task.faces, cfg.seed)
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
    """Generate poems on words and about faces, score them, and compare groups."""
    task, faces = cfg.task, inputs.rows
    assert isinstance(task, PoemConfig)
    assert generator.load is not None
    start = time.perf_counter()
    model = generator.load()
    assert isinstance(model, Multimodal)
    with generator.open_log("poems", poem_generation.is_poem) as answer_log:
        words = poem_generation.generate_on_words(model, task, answer_log)
        pools = poem_generation.collect_pools(words, model.special_ids)
        scores = poem_generation.generate_on_faces(model, task, faces, pools, answer_log)
    seconds = time.perf_counter() - start
    notes = ["{} pool, shared tokens {}: empty".format(*key) for key, ids in pools.items() if not ids]
    for note in notes:
        log.warning("%s, so there is no CLES", note)
    sizes = {key: len(ids) for key, ids in pools.items()}
    draws = {"permutations": task.permutations, "bootstrap": task.bootstrap, "seed": cfg.seed}
    rows = comparison.compare(faces, scores, sizes, **draws).assign(most=task.most)  # limit of new tokens
    run_metrics = {"faces": len(faces), "tokens": float(scores["tokens"].mean()), "answer_seconds": seconds}
    return GeneratorResult(
        analyses=rows.reset_index(drop=True),
        tables={"scores": scores, "words": words, "pools": _pool_table(model, pools)},
        metrics={**_metrics(rows), **run_metrics},
        tags={"notes": "; ".join([*inputs.notes, *notes])},
    )


def _pool_table(model: Multimodal, pools: poem_generation.Pools) -> pd.DataFrame:
    """List the tokens of both pools: `pool`, `token` (its id), `text`, `in_both` (true if both have it)."""
    rows = [
        {"pool": pool, "token": token, "text": model.processor.tokenizer.decode([token])}
        | {"in_both": token not in pools[pool, "removed"]}
        for pool, shared in pools
        if shared == "kept"
        for token in pools[pool, shared]
    ]
    return pd.DataFrame(rows, columns=["pool", "token", "text", "in_both"])


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    """Return the mean of `cles_gap` over pairs of groups, for each pool that is not empty."""
    means = rows.groupby("cles_gap." + rows["pool"] + "." + rows["shared"])["cles_gap"].mean().dropna()
    return {str(name): float(mean) for name, mean in means.items()}
