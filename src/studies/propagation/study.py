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
from src.report.tables import build_table, describe, select_first
from src.stimuli import CARRIES, IMAGE_ROLES
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
from src.studies.propagation.page_tables import arrange
from src.studies.propagation.sc_eat import SC_EAT
from src.studies.propagation.section import section
from src.studies.propagation.similarity_blocks import BLOCK, MAX_BYTES
from src.studies.propagation.top_k import TOP_K
from src.studies.protocol import Cost, Study, Tables, Vectors

# Fields of the protocol for other studies only; `top_k` belongs to So-B-IT, the score TOP_K reads `k`.
UNUSED_FIELDS = {
    *("faces_per_group", "partitions", "ties", "iat"),
    *("top_k", "permutations", "vocabulary", "baseline", "article", "bootstrap"),
}
# Columns of jobs with exp.reliability=true whose means are metrics.
RELIABILITIES = ("rho_cross", "reliability_measured", "reliability_retrieved", "noise_ceiling", "rho_true")
# Bytes of memory per row of a table, measured (benchmarks.scale).
ROW_BYTES = 1000


def check(cfg: RunConfig, by_role: Tables) -> object:
    """Check the pair of roles; see `experiment.check`."""
    assert isinstance(cfg.exp, PropagationConfig)
    if cfg.exp.intervene:
        intervention.check(cfg.protocol)
    pair, chosen = _pair(cfg, by_role), cfg.exp.reliability
    return experiment.check(*pair, cfg.protocol, cfg.seed, with_reliability=chosen)


def run(cfg: RunConfig, by_role: Tables, vectors: Vectors) -> experiment.Result:
    """Compute the experiment; see `experiment.run`."""
    assert isinstance(cfg.exp, PropagationConfig)
    return experiment.run(
        *_pair(cfg, by_role),
        *_pair(cfg, vectors),
        cfg.protocol,
        cfg.seed,
        with_reliability=cfg.exp.reliability,
        max_intervened=cfg.exp.intervene_targets if cfg.exp.intervene else None,
    )


def protocol_fields(exp: PropagationConfig, protocol: ProtocolConfig) -> frozenset[str]:
    """Return the fields of the protocol that affect results for these roles and scores."""
    scores = intrinsic_of(protocol).fields | extrinsic_of(protocol).fields
    names = {entry.name for entry in fields(ProtocolConfig)} - UNUSED_FIELDS
    names -= (SC_EAT.fields | TOP_K.fields) - scores
    return frozenset(name for name in names if not experiment.is_unused(name, exp.targets, exp.corpus))


def metrics(result: experiment.Result) -> dict[str, float]:
    """Return slope, level, rho and mean intrinsic scores by group, and averages of further columns."""
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
    return values | averages(rows)


def averages(rows: pd.DataFrame) -> dict[str, float]:
    """Average columns over analyses, and count the analyses above their placebo."""
    candidates = ("placebo_mean", "placebo_q95", "validity", *RELIABILITIES)
    names = [name for name in candidates if name in rows]
    values = {name: float(rows[name].mean()) for name in names}
    if {"ci_low", "ci_high"} <= set(rows):
        values["ci_width"] = float((rows["ci_high"] - rows["ci_low"]).mean())
    is_above = tables.above(rows)
    return values | ({"above_placebo": float(is_above.sum())} if is_above.notna().any() else {})


def job_figures(
    exp: PropagationConfig, columns: Mapping[str, object], result: experiment.Result
) -> Iterator[tuple[str, Figure, str]]:
    """Plot both scores of each unit."""
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    axes = {"intrinsic": result.measure.label, "outcome": result.outcome.labels[CARRIES[exp.corpus]]}
    yield "scatter.png", *figures.scatter(result.targets, result.analyses, title=title, **axes)


def cost(cfg: RunConfig, counts: Mapping[str, int], width: int) -> Cost:
    """Estimate the cost of both scores, of the placebo and of the interval."""
    assert isinstance(cfg.exp, PropagationConfig)
    protocol, corpus = cfg.protocol, cfg.exp.corpus
    n, m, pools = counts[cfg.exp.targets], counts[corpus], 1
    if CARRIES[corpus] == "valence" and corpus not in IMAGE_ROLES:
        pools = len(cfg.templates)
        m //= pools
    vectors = (n + pools * m) * max(width, 64) * 12.0  # bytes in float32 and in float64
    draws = protocol.placebo or protocol.attribute_draws or protocol.property_draws
    if not (draws or cfg.exp.intervene):
        # Larger pools are processed in tiles: memory holds a tile and the rows of its table.
        vectors = min(vectors, MAX_BYTES + ROW_BYTES * (n + pools * m))
    memory = vectors + 8 * BLOCK * 8
    if protocol.placebo:
        # Similarities of the sampled targets and their retrieved items, for each of about six strata.
        memory += 6 * MAX_SAMPLED * m * 12 + protocol.placebo * m * 16
    return Cost(disk=100 * n, memory=memory)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return the main table and the spread of rho over specifications."""
    renderables: list[RenderableType] = [tables.terminal(analyses, f"{dataset}: propagation")]
    if len(list_specifications(analyses)) > 1:
        renderables.append(build_table(*tables.spread(analyses, dataset)))
    return renderables


def summarise(analyses: pd.DataFrame, dataset: str, folder: Path) -> dict[str, float]:
    """Write summary.csv, heatmap.png and, for several specifications, readings.csv; return mean and SD."""
    tables.summary(analyses).to_csv(folder / "summary.csv", index=False)
    first_rows, specification, others = select_first(analyses)
    title = f"{dataset}: {len(first_rows)} analyses"
    if others:
        tables.specification_spread(analyses).to_csv(folder / "readings.csv", index=False)
        title += f" of {describe(specification)}, the first of {others + 1} specifications"
    save_png(*figures.heatmap(first_rows, title=title), folder / "heatmap.png")
    levels = {
        "level_small_q": float((first_rows["level_q"] <= 0.05).sum()),
        "slope": first_rows["slope"].mean(),
    }
    return levels | {"rho": first_rows["rho"].mean(), "rho_sd": first_rows["rho"].std()}


def further_versions(cfg: RunConfig) -> dict[str, int]:
    """Return the versions of measure and outcome, and of the intervention in a job with one."""
    assert isinstance(cfg.exp, PropagationConfig)
    numbers = measures.versions(cfg.protocol)
    return numbers | declared_versions("intervention") if cfg.exp.intervene else numbers


def _pair(cfg: RunConfig, by_role: Mapping[str, Any]) -> tuple[Any, Any]:
    assert isinstance(cfg.exp, PropagationConfig)
    return by_role[cfg.exp.targets], by_role[cfg.exp.corpus]


STUDY = Study(
    name="propagation",
    roles=lambda exp: (exp.targets, exp.corpus),
    check=check,
    run=run,
    protocol_fields=protocol_fields,
    metrics=metrics,
    figures=job_figures,
    cost=cost,
    further_versions=further_versions,
    report=StudyReport(
        combine=combine,
        arrange=arrange,
        section=section,
        conclusions=conclusions,
        terminal=terminal,
        summarise=summarise,
        detectable=minimum_detectable.plan_rows,
    ),
)
