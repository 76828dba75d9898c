"""Ask a language model to choose the option that completes a sentence, and score its answers."""

import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd

from src import configs
from src.errors import InputError, NotApplicable
from src.generators.causal import Causal
from src.storage import cache, results
from src.studies.generator_protocol import Generator, GeneratorResult, Inputs
from src.studies.subtler import answers, domains, item_composition, items, scoring
from src.studies.subtler.config import SubtlerConfig
from src.studies.subtler.rows import reasons

log = logging.getLogger(__name__)

# Statistics that become MLflow metrics.
METRICS = ("tau_c", "tau_b", "del_PL", "del_NL", "del_NuL")


def inputs(cfg: configs.GenerateConfig, task: str) -> Inputs:
    """Read or compose the items.

    Raises:
        InputError: the question lacks a field, likelihoods are requested from a server, items cannot be read
            or composed, or recorded items have no answers.
        NotApplicable: the model is multimodal.
    """
    config, llm = cfg.task, cfg.llm
    assert isinstance(config, SubtlerConfig)
    if isinstance(llm, configs.MultimodalConfig):
        raise NotApplicable(f"task={task}: needs a text-only model. Use task=poem, or another llm.")
    answers.check_question(config.question)
    if isinstance(llm, configs.ServerConfig) and cfg.answer != "generate":
        raise InputError(f"answer={cfg.answer}: API servers return text only. Use answer=generate.")
    path = llm.path if isinstance(llm, configs.RecordedConfig) else config.path
    if path is None:
        folder = configs.CONF / "domain" / config.language
        paths = [Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml" for name in config.domains]
        compose = partial(item_composition.compose, count=config.count, seed=cfg.seed)
        tables = [compose(domains.read(yaml)) for yaml in paths]
        rows = items.parse(pd.concat(tables, ignore_index=True), folder)
    else:
        paths, rows = [Path(path)], items.read(Path(path))
    if isinstance(llm, configs.RecordedConfig) and "response" not in rows:
        raise InputError(f"{path}: no column response. Name a file that has answers to the items.")
    hashes = {source.name: cache.file_hash(source) for source in paths}
    log.info("%s: %d items", ", ".join(hashes), len(rows))
    return Inputs(rows, hashes, summary=f"{len(rows)} items")


def run(
    cfg: configs.GenerateConfig, inputs: Inputs, generator: Generator, columns: Mapping[str, object]
) -> GeneratorResult:
    """Ask a model, and score its answers in each coding."""
    task = cfg.task
    assert isinstance(task, SubtlerConfig)
    start = time.perf_counter()
    answered, metrics = _answer_items(cfg, task, inputs.rows, generator)
    answer_seconds = time.perf_counter() - start
    codings = ("published", "corrected") if task.stereotype == "positive" else ("published",)
    coded = {coding: scoring.code_answers(answered, coding) for coding in codings}
    score = partial(scoring.score, answered, max_unmatched=task.max_unmatched)
    rows = pd.concat(map(score, codings), ignore_index=True)
    analysis_seconds = time.perf_counter() - start - answer_seconds
    metrics |= {"answer_seconds": answer_seconds, "analysis_seconds": analysis_seconds}
    reason_lines = reasons(results.named(columns, rows))
    return GeneratorResult(
        analyses=rows,
        tables={"answers": _answer_table(coded)},
        metrics={"items": len(inputs.rows), **_shares(coded["published"]), **metrics, **_metrics(rows)},
        tags={"mlflow.note.content": "\n\n".join(reason_lines)} if reason_lines else {},
        csvs={"subtler": rows},
    )


def _answer_items(
    cfg: configs.GenerateConfig, task: SubtlerConfig, rows: pd.DataFrame, generator: Generator
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return the items with `response`, and metrics of the answers."""
    llm, seed = cfg.llm, cfg.seed
    if isinstance(llm, configs.RecordedConfig):
        return rows, {}
    if isinstance(llm, configs.PlantedConfig):
        return answers.planted_answers(rows, lean=llm.lean, seed=seed), {}
    is_free, question = cfg.answer == "generate", task.question
    log_name, is_valid = ("free", answers.is_free) if is_free else ("likelihood", answers.is_option_scores)
    with generator.open_log(log_name, is_valid) as answer_log:
        if isinstance(llm, configs.ServerConfig):
            from src.generators import api_server  # imports openai, which takes a second

            ask = partial(api_server.answers, llm)
            return answers.free_answers(ask, rows, question, seed=seed, answer_log=answer_log)
        assert isinstance(llm, configs.CausalConfig)
        assert generator.load is not None
        model = generator.load()
        assert isinstance(model, Causal)
        if is_free:
            return answers.free_answers(
                lambda texts, _: model.answers(texts, max_new_tokens=llm.most),
                rows,
                question,
                seed=seed,
                answer_log=answer_log,
            )
        per_token = cfg.answer == "likelihood_per_token"
        return answers.likeliest(model, rows, question, per_token=per_token, answer_log=answer_log)


def _answer_table(answered: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    # One row per item, with the value of its answer in each coding.
    first, *_ = answered.values()
    return first.drop(columns="y").assign(**{f"y_{coding}": rows["y"] for coding, rows in answered.items()})


def _shares(answers: pd.DataFrame) -> dict[str, float]:
    """Return the shares of answers that match no option, and of questions that a server did not answer."""
    unanswered = answers["unanswered"].notna().mean() if "unanswered" in answers else 0.0
    return {"share_unmatched": float((~answers["matched"]).mean()), "share_unanswered": float(unanswered)}


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    totals = rows[(rows["domain"] == scoring.ALL) & (rows["gender"] == scoring.ALL)]
    values = {
        f"{name}.{row['direction']}.{row['coding']}": float(row[name])
        for row in totals.to_dict("records")
        for name in METRICS
    }
    return {name: value for name, value in values.items() if pd.notna(value)}
