"""Ask a language model which options complete sentences, and score its answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd

from src import configs
from src.errors import InputError, NotApplicable
from src.generators import api_server
from src.generators.causal import Causal
from src.storage import cache, results
from src.studies.generator_protocol import Generator, GeneratorResult, Inputs
from src.studies.subtler import answers, domains, item_composition, items, planted, questions, scoring
from src.studies.subtler.config import SubtlerConfig
from src.studies.subtler.terminal import reasons

log = logging.getLogger(__name__)

LOGGED = ("tau_c", "tau_b", "del_PL", "del_NL", "del_NuL")


def inputs(cfg: configs.GenerateConfig, task: str) -> Inputs:
    """Read or compose the items.

    Raises:
        InputError: the question does not fit, a server is asked for likelihoods, or items cannot be read or
            composed, or hold no answers where recorded ones are asked for.
        NotApplicable: the model reads pictures.
    """
    chosen, llm = cfg.task, cfg.llm
    assert isinstance(chosen, SubtlerConfig)
    if isinstance(llm, configs.MultimodalConfig):
        raise NotApplicable(f"task={task}: asks models of texts alone. Say task=poem, or another llm.")
    questions.checked(chosen.question)
    if isinstance(llm, configs.ServerConfig) and cfg.answer != "generate":
        raise InputError(f"answer={cfg.answer}: a server gives free answers only. Say answer=generate.")
    path = llm.path if isinstance(llm, configs.RecordedConfig) else chosen.path
    if path is None:
        folder = configs.CONF / "domain" / chosen.language
        paths = [Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml" for name in chosen.domains]
        compose = partial(item_composition.compose, count=chosen.count, seed=cfg.seed)
        tables = [compose(domains.read(yaml)) for yaml in paths]
        rows = items.of(pd.concat(tables, ignore_index=True), folder)
    else:
        paths, rows = [Path(path)], items.read(Path(path))
    if isinstance(llm, configs.RecordedConfig) and "response" not in rows:
        raise InputError(f"{path}: no column response. Name a file that holds answers beside the items.")
    hashes = {source.name: cache.file_hash(source) for source in paths}
    log.info("%s: %d items", ", ".join(hashes), len(rows))
    return Inputs(rows, hashes, summary=f"{len(rows)} items")


def run(
    cfg: configs.GenerateConfig, inputs: Inputs, generator: Generator, columns: Mapping[str, object]
) -> GeneratorResult:
    """Ask the model, and score its answers in each coding."""
    task = cfg.task
    assert isinstance(task, SubtlerConfig)
    start = time.perf_counter()
    answered, figures = _answered(cfg, task, inputs.rows, generator)
    answer_seconds = time.perf_counter() - start
    codings = ("published", "corrected") if task.stereotype == "positive" else ("published",)
    coded = {coding: scoring.coded(answered, coding) for coding in codings}
    score = partial(scoring.score, answered, bootstrap=task.bootstrap, seed=cfg.seed)
    score = partial(score, max_unmatched=task.max_unmatched)
    rows = pd.concat(map(score, codings), ignore_index=True)
    analysis_seconds = time.perf_counter() - start - answer_seconds
    figures |= {"answer_seconds": answer_seconds, "analysis_seconds": analysis_seconds}
    lines = reasons(results.named(columns, rows))
    return GeneratorResult(
        analyses=rows,
        tables={"answers": _answers(coded)},
        metrics={"items": len(inputs.rows), **_shares(coded["published"]), **figures, **_metrics(rows)},
        tags={"mlflow.note.content": "\n\n".join(lines)} if lines else {},
        sheets={"subtler": rows},
    )


def _answered(
    cfg: configs.GenerateConfig, task: SubtlerConfig, rows: pd.DataFrame, generator: Generator
) -> tuple[pd.DataFrame, dict[str, float]]:
    llm, seed = cfg.llm, cfg.seed
    if isinstance(llm, configs.RecordedConfig):
        return rows, {}
    if isinstance(llm, configs.PlantedConfig):
        return planted.answers(rows, lean=llm.lean, seed=seed), {}
    free, question = cfg.answer == "generate", task.question
    how, fits = ("free", answers.is_free) if free else ("likelihood", answers.is_weighed)
    with generator.log(how, fits) as answer_log:
        if isinstance(llm, configs.ServerConfig):
            proof = answers.answered_before(rows, question, seed=seed, kept=answer_log)
            ask = partial(api_server.answers, llm, proof=proof)
            return answers.free(ask, rows, question, seed=seed, kept=answer_log)
        assert isinstance(llm, configs.CausalConfig)
        assert generator.load is not None
        model = generator.load()
        assert isinstance(model, Causal)
        if free:
            write = partial(model.answers, most=llm.most)
            return answers.free(write, rows, question, seed=seed, kept=answer_log)
        per_token = cfg.answer == "likelihood_per_token"
        return answers.likeliest(model, rows, question, per_token=per_token, kept=answer_log)


def _answers(answered: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    # One row per item, with what each coding makes of its answer.
    first, *_ = answered.values()
    return first.drop(columns="y").assign(**{f"y_{coding}": rows["y"] for coding, rows in answered.items()})


def _shares(answers: pd.DataFrame) -> dict[str, float]:
    """Return the shares of answers that match no option, and that a server did not give."""
    unanswered = answers["unanswered"].notna().mean() if "unanswered" in answers else 0.0
    return {"share_unmatched": float((~answers["matched"]).mean()), "share_unanswered": float(unanswered)}


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    totals = rows[(rows["domain"] == scoring.ALL) & (rows["gender"] == scoring.ALL)]
    values = {
        f"{name}.{row['direction']}.{row['coding']}": float(row[name])
        for row in totals.to_dict("records")
        for name in LOGGED
    }
    return {name: value for name, value in values.items() if value == value}
