"""Define the study of propagation."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from rich.console import RenderableType

from src.configs import ProtocolConfig, RunConfig
from src.report.drawing import save_png
from src.report.findings import list_specifications
from src.report.study import StudyReport
from src.report.tables import build_table, describe, select_first_specification
from src.stimuli import CARRIES, IMAGE_ROLES, PROMPTS
from src.storage.versions import declared_versions
from src.studies.propagation import (
    experiment,
    figures,
    intervention,
    measures,
    minimum_detectable,
    tables,
)
from src.studies.propagation.combined import combine
from src.studies.propagation.conclusions import conclusions
from src.studies.propagation.config import PropagationConfig
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.null_scores import MAX_SAMPLED
from src.studies.propagation.page_tables import sort_and_pad
from src.studies.propagation.sc_eat import SC_EAT
from src.studies.propagation.section import section
from src.studies.propagation.similarity_blocks import BLOCK_SIZE, MAX_POOL_BYTES
from src.studies.propagation.top_k import TOP_K
from src.studies.protocol import Cost, Study, Tables, Vectors

# Protocol fields of other studies, unused unless a score lists them in its `fields` (harm: `article`).
# `top_k` is a field of So-B-IT and of matched pictures; the outcome TOP_K uses `k`.
UNUSED_FIELDS = {
    *("faces_per_group", "partitions", "ties", "iat"),
    *("top_k", "permutations", "vocabulary", "baseline", "article", "bootstrap"),
}
# Columns of jobs with exp.reliability=true whose means are MLflow metrics.
RELIABILITY_METRICS = (
    "rho_cross",
    "reliability_measured",
    "reliability_retrieved",
    "noise_ceiling",
    "rho_true",
)
# Memory per row of a stimulus table in bytes, as measured by benchmarks.scale.
ROW_BYTES = 1000


def check(cfg: RunConfig, stimuli: Tables) -> object:
    """Check that the experiment can run; see `experiment.check`."""
    assert isinstance(cfg.exp, PropagationConfig)
    if cfg.exp.intervene:
        intervention.check(cfg.protocol)
    roles = _select_roles(cfg, stimuli)
    return experiment.check(*roles, cfg.protocol, cfg.seed, with_reliability=cfg.exp.reliability)


def run(cfg: RunConfig, stimuli: Tables, vectors: Vectors) -> experiment.Result:
    """Run the experiment; see `experiment.run`."""
    assert isinstance(cfg.exp, PropagationConfig)
    return experiment.run(
        *_select_roles(cfg, stimuli),
        *_select_roles(cfg, vectors),
        cfg.protocol,
        cfg.seed,
        with_reliability=cfg.exp.reliability,
        max_intervened=cfg.exp.intervene_targets if cfg.exp.intervene else None,
        prompts=(stimuli[PROMPTS], vectors[PROMPTS]) if PROMPTS in stimuli else None,
    )


def protocol_fields(exp: PropagationConfig, protocol: ProtocolConfig) -> frozenset[str]:
    """Return the protocol fields that affect an experiment with these roles and scores."""
    score_fields = intrinsic_of(protocol).fields | extrinsic_of(protocol).fields
    names = {field.name for field in fields(ProtocolConfig)} - UNUSED_FIELDS
    names = (names | score_fields) - ((SC_EAT.fields | TOP_K.fields) - score_fields)
    return frozenset(name for name in names if not experiment.is_unused(name, exp.targets, exp.corpus))


def metrics(result: experiment.Result) -> dict[str, float]:
    """Return MLflow metrics: rho, slope, levels, mean intrinsic scores, and means of further columns."""
    rows = result.analyses
    values = {"rho": float(rows["rho"].mean()), "slope": float(rows["slope"].mean())}
    if rows["level_p"].notna().any():
        values["level_small_p"] = float((rows["level_p"] <= 0.05).sum())
    values |= {
        f"level.{name}": float(level) for name, level in zip(rows["stratum"], rows["level"], strict=True)
    }
    means = result.tables["targets"].groupby("stratum")["intrinsic"].mean()
    for group, stratum, rho in zip(rows["group"], rows["stratum"], rows["rho"], strict=True):
        if group is not None:
            values[f"rho.{group}"] = float(rho)
        values[f"{result.measure.metric}.{stratum}"] = float(means.get(stratum, math.nan))
    if result.intervention:
        summary = result.intervention.summary.iloc[0]
        values |= {name: float(summary[name]) for name in ("left", "left_p")}
    return values | average_columns(rows)


def average_columns(rows: pd.DataFrame) -> dict[str, float]:
    """Average columns over analyses; count the analyses whose rho is above its placebo's 95th percentile."""
    candidates = ("placebo_mean", "placebo_q95", "validity", *RELIABILITY_METRICS)
    names = [name for name in candidates if name in rows]
    values = {name: float(rows[name].mean()) for name in names}
    if {"ci_low", "ci_high"} <= set(rows):
        values["ci_width"] = float((rows["ci_high"] - rows["ci_low"]).mean())
    is_above = tables.mark_above_placebo(rows)
    return values | ({"above_placebo": float(is_above.sum())} if is_above.notna().any() else {})


def draw_job_figures(
    exp: PropagationConfig, columns: Mapping[str, object], result: experiment.Result
) -> Iterator[tuple[str, Figure, str]]:
    """Yield the scatter plot of both scores: file name, figure and alt text."""
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    axes = {"intrinsic": result.measure.label, "outcome": result.outcome.labels[CARRIES[exp.corpus]]}
    yield "scatter.png", *figures.plot_scatter(result.targets, result.analyses, title=title, **axes)


def cost(cfg: RunConfig, counts: Mapping[str, int], width: int) -> Cost:
    """Estimate the bytes on disk and in memory of an experiment."""
    assert isinstance(cfg.exp, PropagationConfig)
    protocol, corpus = cfg.protocol, cfg.exp.corpus
    n_targets, n_items, n_pools = counts[cfg.exp.targets], counts[corpus], 1
    if CARRIES[corpus] == "valence" and corpus not in IMAGE_ROLES:
        n_pools = len(cfg.templates)
        n_items //= n_pools  # of each pool
    n_rows = n_targets + n_pools * n_items
    vector_bytes = n_rows * max(width, 64) * 12.0  # 4 bytes in float32 and 8 in float64
    draws = protocol.placebo or protocol.attribute_draws or protocol.property_draws
    if not (draws or cfg.exp.intervene):
        # Larger pools are processed in tiles: only the tables and MAX_POOL_BYTES of vectors are in memory.
        vector_bytes = min(vector_bytes, MAX_POOL_BYTES + ROW_BYTES * n_rows)
    memory = vector_bytes + 8 * BLOCK_SIZE * 8
    if protocol.placebo:
        # Similarities and retrieved items of the sampled targets in about six strata, and the permutations.
        memory += 6 * MAX_SAMPLED * n_items * 12 + protocol.placebo * n_items * 16
    return Cost(disk=100 * n_targets, memory=memory)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return the main table and, with several specifications, the table of their spread."""
    renderables: list[RenderableType] = [tables.build_terminal_table(analyses, f"{dataset}: propagation")]
    if len(list_specifications(analyses)) > 1:
        renderables.append(build_table(*tables.build_spread_table(analyses, dataset)))
    return renderables


def summarise(analyses: pd.DataFrame, dataset: str, folder: Path) -> dict[str, float]:
    """Write summary.csv and heatmap.png of a sweep; return the metrics of its parent run.

    With several specifications, also write readings.csv, the spread of rho over them.
    """
    tables.summarise_rhos(analyses).to_csv(folder / "summary.csv", index=False)
    first_rows, specification, n_others = select_first_specification(analyses)
    title = f"{dataset}: {len(first_rows)} analyses"
    if n_others:
        tables.summarise_specifications(analyses).to_csv(folder / "readings.csv", index=False)
        title += f" of {describe(specification)}, the first of {n_others + 1} specifications"
    save_png(*figures.plot_heatmap(first_rows, title=title), folder / "heatmap.png")
    return {
        "level_small_q": float((first_rows["level_q"] <= 0.05).sum()),
        "slope": first_rows["slope"].mean(),
        "rho": first_rows["rho"].mean(),
        "rho_sd": first_rows["rho"].std(),
    }


def further_versions(cfg: RunConfig) -> dict[str, int]:
    """Return the versions of the measure and the outcome, and of the intervention if the job has one."""
    assert isinstance(cfg.exp, PropagationConfig)
    versions = measures.versions_of(cfg.protocol)
    return versions | declared_versions("intervention") if cfg.exp.intervene else versions


def _select_roles(cfg: RunConfig, by_role: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the values of the targets' role and of the corpus's role."""
    assert isinstance(cfg.exp, PropagationConfig)
    return by_role[cfg.exp.targets], by_role[cfg.exp.corpus]


STUDY = Study(
    name="propagation",
    roles=lambda exp: (exp.targets, exp.corpus),
    prompts=lambda cfg: extrinsic_of(cfg.protocol).prompts(cfg),
    check=check,
    run=run,
    config_groups=lambda cfg: extrinsic_of(cfg.protocol).config_groups,
    protocol_fields=protocol_fields,
    metrics=metrics,
    figures=draw_job_figures,
    cost=cost,
    further_versions=further_versions,
    report=StudyReport(
        combine=combine,
        arrange=sort_and_pad,
        section=section,
        conclusions=conclusions,
        terminal=terminal,
        summarise=summarise,
        detectable=minimum_detectable.build_plan_rows,
    ),
)
