"""Ask a language model to choose the option that completes a sentence, and score its answers."""

import logging
import time
from collections.abc import Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from src import configs
from src.errors import InputError, NotApplicable, first_few
from src.generators.language_models import Causal
from src.report.study import StudyReport
from src.report.tables import build_table, lay_out
from src.storage import cache, results
from src.studies.generator_protocol import Generator, GeneratorResult, GeneratorStudy, Inputs
from src.studies.subtler import answers, domains, item_composition, items, scoring
from src.studies.subtler.config import SubtlerConfig
from src.studies.subtler.rows import explain_missing_tau
from src.studies.subtler.scoring import ALL
from src.studies.subtler.section import build_section

log = logging.getLogger(__name__)

# Statistics that become MLflow metrics.
METRICS = ("tau_c", "tau_b", "del_PL", "del_NL", "del_NuL")
TITLE = (
    "Subtler biases: Stuart's τ-c of polarity and answer, 95% interval over templates and stimuli, "
    "n (unmatched)"
)


def load_items(cfg: configs.GenerateConfig, task: str) -> Inputs:
    """Read or compose the items.

    Raises:
        InputError: the question lacks a field, likelihoods are requested from a server, items are to be
            composed with `task.stereotype=positive`, items cannot be read or composed, or recorded items
            have no answers.
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
    if path is None and config.stereotype == "positive":
        raise InputError(
            "task.stereotype=positive: composed items name the option that a stereotype suggests. Use "
            "task.stereotype=by_polarity, or name a file of items with task.path."
        )
    if path is None:
        folder = configs.CONF / "domain" / config.language
        paths = [Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml" for name in config.domains]
        # Results are reused by these names and the content of the files.
        if not paths or len({path.name for path in paths}) < len(paths):
            raise InputError(
                f"task.domains=[{first_few(config.domains)}]: expected one or more domains, each of another "
                "file name. Correct the list, or rename a file."
            )
        if missing := [path for path in paths if not path.is_file()]:
            known = first_few(path.stem for path in sorted(folder.glob("*.yaml"))) or "no domain"
            raise InputError(
                f"{missing[0]}: no such file. Write the domain there (docs/domains.md), or set task.domains; "
                f"task.language={config.language} has {known}."
            )
        tables = [
            item_composition.compose_items(domains.read_domain(path), count=config.count, seed=cfg.seed)
            for path in paths
        ]
        rows = items.parse_items(pd.concat(tables, ignore_index=True), folder)
    else:
        paths, rows = [Path(path)], items.read_items(Path(path))
    if isinstance(llm, configs.RecordedConfig) and "response" not in rows:
        raise InputError(f"{path}: no column response. Name a file with answers to the items.")
    hashes = {source.name: cache.file_hash(source) for source in paths}
    log.info("%s: %d items", ", ".join(hashes), len(rows))
    return Inputs(rows, hashes, summary=f"{len(rows)} items")


def run(
    cfg: configs.GenerateConfig, inputs: Inputs, generator: Generator, columns: Mapping[str, object]
) -> GeneratorResult:
    """Collect a model's answers to the items, and score them in each coding."""
    task = cfg.task
    assert isinstance(task, SubtlerConfig)
    start = time.perf_counter()
    answered_items, metrics = _answer_items(cfg, task, inputs.rows, generator)
    answer_seconds = time.perf_counter() - start
    codings = ("published", "corrected") if task.stereotype == "positive" else ("published",)
    coded_items = {coding: scoring.code_answers(answered_items, coding) for coding in codings}
    # One row per item, with the polarity of its answer in each coding.
    polarities = {f"y_{coding}": coded["y"] for coding, coded in coded_items.items()}
    answer_table = coded_items["published"].drop(columns="y").assign(**polarities)
    scores = [
        scoring.score_answers(answered_items, coding, max_unmatched=task.max_unmatched) for coding in codings
    ]
    analyses = pd.concat(scores, ignore_index=True)
    analysis_seconds = time.perf_counter() - start - answer_seconds
    metrics |= {"answer_seconds": answer_seconds, "analysis_seconds": analysis_seconds}
    # Shares of answers that match no option, and of questions that a server did not answer.
    unanswered = answered_items["unanswered"].notna().mean() if "unanswered" in answered_items else 0.0
    metrics["share_unmatched"] = float((~coded_items["published"]["matched"]).mean())
    metrics |= {"share_unanswered": float(unanswered), "items": len(inputs.rows)}
    for row in analyses[(analyses["domain"] == ALL) & (analyses["gender"] == ALL)].to_dict("records"):
        suffix = f"{row['direction']}.{row['coding']}"
        metrics |= {f"{name}.{suffix}": float(row[name]) for name in METRICS if pd.notna(row[name])}
    reason_lines = explain_missing_tau(results.with_job_columns(columns, analyses))
    return GeneratorResult(
        analyses=analyses,
        tables={"answers": answer_table},
        metrics=metrics,
        tags={"mlflow.note.content": "\n\n".join(reason_lines)} if reason_lines else {},
        csvs={"subtler": analyses},
    )


def _answer_items(
    cfg: configs.GenerateConfig, task: SubtlerConfig, rows: pd.DataFrame, generator: Generator
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Collect the answers; return the items with `response`, and metrics of the answers."""
    llm, seed = cfg.llm, cfg.seed
    if isinstance(llm, configs.RecordedConfig):
        return rows, {}
    if isinstance(llm, configs.PlantedConfig):
        return answers.simulate_answers(rows, lean=llm.lean, seed=seed), {}
    is_free_text, question = cfg.answer == "generate", task.question
    log_name, is_valid = (
        ("free", answers.is_free_answer) if is_free_text else ("likelihood", answers.are_option_scores)
    )
    with generator.open_log(log_name, is_valid) as answer_log:
        if isinstance(llm, configs.ServerConfig):
            from src.generators import api_server  # imports openai, which takes a second

            ask = partial(api_server.query_answers, llm)
            return answers.collect_free_answers(ask, rows, question, seed=seed, answer_log=answer_log)
        assert isinstance(llm, configs.CausalConfig)
        assert generator.load is not None
        model = generator.load()
        assert isinstance(model, Causal)
        if is_free_text:
            return answers.collect_free_answers(
                lambda texts, _: model.generate_answers(texts, max_new_tokens=llm.most),
                rows,
                question,
                seed=seed,
                answer_log=answer_log,
            )
        per_token = cfg.answer == "likelihood_per_token"
        return answers.choose_likeliest(model, rows, question, per_token=per_token, answer_log=answer_log)


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Build a table of tau-c, and a line for each missing tau-c.

    The table has a row per specification, task, coding, domain and direction, and a column per model.
    """
    totals = analyses[analyses["gender"] == ALL]
    label = totals[["exp", "coding", "domain", "direction"]].astype(str).agg(" ".join, axis=1)
    texts = [_format_cell(row) for row in totals.to_dict("records")]
    table = lay_out(totals.assign(label=label, text=texts), "protocol", "seed")
    return [
        build_table(table, f"{dataset}: {TITLE}"),
        *(Text(line, style="yellow") for line in explain_missing_tau(analyses)),
    ]


def _format_cell(row: Mapping[Hashable, Any]) -> str:
    if row.get("reason") and pd.isna(row["tau_c"]):
        return f"no τ-c: {row['n_unmatched']} of {row['n']} match no option"
    interval = row.get("reason") or "no interval"
    if pd.notna(row["tau_c_low"]):
        interval = f"[{row['tau_c_low']:.2f}, {row['tau_c_high']:.2f}]"
    return f"{row['tau_c']:.3f} {interval}, {row['n']} ({row['n_unmatched']})"


STUDY = GeneratorStudy(
    name="subtler",
    inputs=load_items,
    run=run,
    protocol_name=lambda cfg, _: "recorded" if isinstance(cfg.llm, configs.RecordedConfig) else cfg.answer,
    fields=frozenset({"answer"}),
    parts=("scoring",),
    report=StudyReport(section=build_section, terminal=build_terminal_tables),
)
