"""The study of propagation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from rich.console import RenderableType

from src.configs import ProtocolConfig, RunConfig
from src.report.drawing import save
from src.report.findings import readings
from src.report.study import StudyReport
from src.report.tables import first, plain, said
from src.stimuli import CARRIES, IMAGE_ROLES
from src.studies.propagation import experiment, figures, measures, tables
from src.studies.propagation.combined import combine
from src.studies.propagation.config import PropagationConfig
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.null_scores import SAMPLED
from src.studies.propagation.page_tables import arranged
from src.studies.propagation.sc_eat import SC_EAT
from src.studies.propagation.section import section
from src.studies.propagation.similarity_blocks import BLOCK, HELD
from src.studies.propagation.top_k import TOP_K
from src.studies.protocol import Cost, Study, Tables, Vectors

MEANS = ("placebo_mean", "placebo_q95", "validity")
# Fields of the protocol that decide nothing in propagation, whatever the roles are.
OF_OTHERS = {
    *("faces_per_group", "partitions", "ties", "iat"),
    *("top_k", "permutations", "vocabulary", "baseline", "article"),
}
# Of each row of a table, in memory, measured (benchmarks.scale).
ROW = 1000


def roles(exp: PropagationConfig) -> tuple[str, ...]:
    """Return targets and corpus."""
    return exp.targets, exp.corpus


def check(cfg: RunConfig, shown: Tables) -> object:
    """Check the pair of roles; see `experiment.check`."""
    targets, corpus = _pair(cfg, shown)
    return experiment.check(targets, corpus, cfg.protocol, cfg.seed)


def run(cfg: RunConfig, shown: Tables, vectors: Vectors) -> experiment.Result:
    """Compute the experiment; see `experiment.run`."""
    targets, corpus = _pair(cfg, shown)
    target_vectors, corpus_vectors = _pair(cfg, vectors)
    return experiment.run(targets, corpus, target_vectors, corpus_vectors, cfg.protocol, cfg.seed)


def protocol_fields(exp: PropagationConfig, protocol: ProtocolConfig) -> frozenset[str]:
    """Return the fields of the protocol that decide something for these roles and scores."""
    scores = intrinsic_of(protocol).fields | extrinsic_of(protocol).fields
    names = {entry.name for entry in fields(ProtocolConfig)} - OF_OTHERS
    names -= (SC_EAT.fields | TOP_K.fields) - scores
    return frozenset(name for name in names if not experiment.unused(name, exp.targets, exp.corpus))


def metrics(result: experiment.Result) -> dict[str, float]:
    """Return rho and mean intrinsic scores by group, and their reliability."""
    rows = result.analyses
    found = {"rho": float(rows["rho"].mean())}
    means = result.tables["targets"].groupby("stratum")["intrinsic"].mean()
    for group, stratum, rho in zip(rows["group"], rows["stratum"], rows["rho"], strict=True):
        if group is not None:
            found[f"rho.{group}"] = float(rho)
        found[f"{result.measure.metric}.{stratum}"] = float(means.get(stratum, math.nan))
    return found | reliability(rows)


def reliability(rows: pd.DataFrame) -> dict[str, float]:
    """Return means over analyses of what says how far rho can be relied on, where it was asked for."""
    found = {name: float(rows[name].mean()) for name in MEANS if name in rows}
    if {"ci_low", "ci_high"} <= set(rows):
        found["ci_width"] = float((rows["ci_high"] - rows["ci_low"]).mean())
    better = tables.above(rows)
    return found | ({"above_placebo": float(better.sum())} if better.notna().any() else {})


def job_figures(
    exp: PropagationConfig, columns: Mapping[str, object], result: experiment.Result
) -> Iterator[tuple[str, Figure, str]]:
    """Draw both scores of each unit."""
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    axes = {"intrinsic": result.measure.label, "outcome": result.outcome.labels[CARRIES[exp.corpus]]}
    yield "scatter.png", *figures.scatter(result.targets, result.analyses, title=title, **axes)


def cost(cfg: RunConfig, counts: Mapping[str, int], width: int) -> Cost:
    """Estimate the cost of both scores, of the placebo and of the interval."""
    assert isinstance(cfg.exp, PropagationConfig)
    protocol, corpus = cfg.protocol, cfg.exp.corpus
    n, m, passes = counts[cfg.exp.targets], counts[corpus], 1
    if CARRIES[corpus] == "valence" and corpus not in IMAGE_ROLES:
        passes = len(cfg.templates)
        m //= passes
    vectors = (n + passes * m) * max(width, 64) * 12.0
    if not (protocol.placebo or protocol.attribute_draws or protocol.property_draws):
        # What is larger is walked: in memory are a tile of it, and what its table says of each row.
        vectors = min(vectors, HELD + ROW * (n + passes * m))
    memory = vectors + 8 * BLOCK * 8
    if protocol.placebo:
        # Similarities of the sampled targets, and what is retrieved for them, for each of some six strata.
        memory += 6 * SAMPLED * m * 12 + protocol.placebo * m * 16
    return Cost(100 * n, memory)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return the main table, and how far rho depends on the reading."""
    shown: list[RenderableType] = [tables.terminal(analyses, f"{dataset}: propagation")]
    if len(readings(analyses)) > 1:
        shown.append(plain(*tables.spread(analyses, dataset)))
    return shown


def summarise(analyses: pd.DataFrame, dataset: str, folder: Path) -> dict[str, float]:
    """Write summary.csv, readings.csv and heatmap.png; return mean and SD of rho."""
    tables.summary(analyses).to_csv(folder / "summary.csv", index=False)
    shown, reading, others = first(analyses)
    title = f"{dataset}: {len(shown)} analyses"
    if others:
        tables.readings(analyses).to_csv(folder / "readings.csv", index=False)
        title += f" of {said(reading)}, the first of {others + 1} readings"
    save(*figures.heatmap(shown, title=title), folder / "heatmap.png")
    return {"rho": shown["rho"].mean(), "rho_sd": shown["rho"].std()}


def versions(cfg: RunConfig) -> dict[str, int]:
    """Return the versions of measure and outcome, where they are not the paper's."""
    return measures.versions(cfg.protocol)


def _pair(cfg: RunConfig, by_role: Mapping[str, Any]) -> tuple[Any, Any]:
    assert isinstance(cfg.exp, PropagationConfig)
    return by_role[cfg.exp.targets], by_role[cfg.exp.corpus]


STUDY = Study(
    name="propagation",
    roles=roles,
    check=check,
    run=run,
    protocol_fields=protocol_fields,
    metrics=metrics,
    figures=job_figures,
    cost=cost,
    further_versions=versions,
    report=StudyReport(
        combine=combine, arrange=arranged, section=section, terminal=terminal, summarise=summarise
    ),
)
