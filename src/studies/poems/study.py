"""Generate poems about faces by multimodal models, and compare groups of faces."""

import logging
import time
from collections.abc import Mapping

import pandas as pd
from rich.console import RenderableType

from src import configs, stimuli
from src.errors import InputError, NotApplicable
from src.generators.multimodal import Multimodal
from src.report.findings import SPECIFICATION
from src.report.study import StudyReport
from src.report.tables import across_models, plain
from src.studies.generator_protocol import Generator, GeneratorResult, GeneratorStudy, Inputs
from src.studies.poems import comparison, poem_generation
from src.studies.poems.config import PoemConfig
from src.studies.poems.section import section

TITLE = "Poems about faces: mean |CLES − ½| over pairs of groups; the pair with the largest, 95% interval"

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
    faces = stimuli.faces(cfg.faces, cfg.store)
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
    cfg: configs.GenerateConfig, inputs: Inputs, generator: Generator, _: Mapping[str, object]
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
    # The mean over pairs of groups, for each pool that is not empty.
    means = rows.groupby("cles_gap." + rows["pool"] + "." + rows["shared"])["cles_gap"].mean().dropna()
    metrics = {str(name): float(mean) for name, mean in means.items()}
    metrics |= {"faces": len(faces), "tokens": float(scores["tokens"].mean()), "answer_seconds": seconds}
    tokens = [
        (pool, token, model.processor.tokenizer.decode([token]), token not in pools[pool, "removed"])
        for pool in poem_generation.POLES
        for token in pools[pool, "kept"]
    ]
    return GeneratorResult(
        analyses=rows.reset_index(drop=True),
        tables={
            "scores": scores,
            "words": words,
            "pools": pd.DataFrame(tokens, columns=["pool", "token", "text", "in_both"]),
        },
        metrics=metrics,
        tags={"notes": "; ".join([*inputs.notes, *notes])},
    )


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table: a row per specification, pool and treatment of shared tokens, a column per model."""
    by = [*SPECIFICATION, "pool", "shared", "model"]
    cells = [(*keys, _cell(pairs)) for keys, pairs in analyses.groupby(by, sort=False)]
    rows = pd.DataFrame(cells, columns=[*by, "text"])
    label = rows["pool"] + ", shared tokens " + rows["shared"]
    table = across_models(rows.assign(label=label), "protocol", "seed")
    return [plain(table, f"{dataset}: {TITLE}")]


def _cell(pairs: pd.DataFrame) -> str:
    """Format the mean gap over pairs of groups, and the CLES of the pair with the largest gap."""
    defined = pairs[pairs["cles_gap"].notna()]
    if defined.empty:
        return "empty pool"
    row = max(defined.to_dict("records"), key=lambda candidate: float(candidate["cles_gap"]))
    interval = f" [{row['cles_low']:.2f}, {row['cles_high']:.2f}]" if pd.notna(row["cles_low"]) else ""
    q = f", q {row['q']:.3f}" if pd.notna(row["q"]) else ""
    return (
        f"{defined['cles_gap'].mean():.3f} of {len(defined)}; {row['group_a']} / {row['group_b']}: "
        f"CLES {row['cles']:.3f}{interval}{q}, {row['n_a']} and {row['n_b']} faces, "
        f"{row['tokens_a']:.0f} and {row['tokens_b']:.0f} tokens"
    )


STUDY = GeneratorStudy(
    name="poems",
    inputs=inputs,
    run=run,
    protocol_name=lambda _, dataset: f"greedy+dataset={dataset}",
    fields=frozenset({"faces"}),
    parts=("inference",),
    report=StudyReport(section=section, terminal=terminal),
)
