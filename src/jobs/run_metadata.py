"""What is logged of a job: where its numbers come from, the numbers themselves, and a figure."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from src import configs, encoders, stimuli, tracking
from src.embeddings import Embeddings
from src.encoders.facts import facts, pretraining
from src.jobs.identity import Job
from src.report import figures, implicit
from src.report import tables as report_tables
from src.report.sobit.section import pictures
from src.report.sobit.words import completed
from src.stimuli import CARRIES, IMAGE_ROLES, Table
from src.storage import results
from src.studies import Found

MEANS = ("placebo_mean", "placebo_q95", "validity")
OUTCOMES = {
    "valence": "mean valence of what is retrieved",
    "group": "share of the group in what is retrieved",
}
# Of a So-B-IT audit, by axis: means over words.
SOBIT = ("maxskew", "ndkl", "entropy")
# Of an audit, by attribute.
AUDITED = ("cles_gap", "delta_gap", "iat", "null_mean")
ZERO_SHOT = ("accuracy", "chance")


def provenance() -> dict[str, str]:
    """Tags of the code that runs, libraries included."""
    return {**tracking.commit(configs.CODE), **tracking.versions()}


def tables(shown: Mapping[str, Table]) -> dict[str, str]:
    """Tags: hash and use of each table of stimuli."""
    found = {}
    for role, table in shown.items():
        found[f"input.{role}"] = table.hash
        found[f"used.{role}"] = table.statement()
    return found


def vectors(seen: Mapping[str, Embeddings]) -> dict[str, str]:
    """Tags: hash of each role's vectors."""
    return {f"input.{role}.vectors": found.hash for role, found in seen.items()}


def model(job: Job) -> dict[str, str]:
    """Tags: which weights looked, and what they were trained on; `weights` says whether they are random."""
    told = {"pretraining": pretraining(job.cfg.model)}
    if isinstance(job.cfg.model, configs.PrecomputedConfig):
        return told
    said = encoders.open_encoder(job.cfg, partial(stimuli.load, job.cfg)).weights()
    random = said["revision"] == "random" or getattr(job.cfg.model, "steps", None) == 0
    trained = {"weights": "random" if random else "trained"}
    return told | trained | {f"weights.{name}": value for name, value in said.items()}


def inputs(job: Job, shown: Mapping[str, Table], seen: Mapping[str, Embeddings]) -> dict[str, str]:
    """SHA-256 of each table of stimuli and of its vectors, by name."""
    hashes = {f"{job.dataset} {role}": table.hash for role, table in shown.items()}
    return hashes | {f"{role} by {job.model}": found.hash for role, found in seen.items()}


def speed(seen: Mapping[str, Embeddings]) -> dict[str, float]:
    """Metrics: stimuli per second, where they were embedded just now."""
    shown = {"images_per_second": [0, 0.0], "sentences_per_second": [0, 0.0]}
    for role, found in seen.items():
        if found.seconds:
            name = "images_per_second" if role in IMAGE_ROLES else "sentences_per_second"
            shown[name][0] += len(found.vectors)
            shown[name][1] += found.seconds
    return {name: count / seconds for name, (count, seconds) in shown.items() if seconds}


def metrics(job: Job, result: Found) -> dict[str, float]:
    """Metrics of the job's kind of experiment, and what is known of its model; NaN is left out."""
    rows = result.analyses
    if isinstance(job.cfg.exp, configs.PropagationConfig):
        found = _rho(result) | _worth(rows)
    elif isinstance(job.cfg.exp, configs.AuditConfig):
        means = rows.groupby("attribute")[list(AUDITED)].mean()
        found = {
            f"{name}.{which}": float(means.loc[which, name]) for name in AUDITED for which in means.index
        }
    elif isinstance(job.cfg.exp, configs.SobitConfig):
        found = _sobit(rows)
    else:
        found = {name: float(rows[name].mean()) for name in ZERO_SHOT}
    return _known({**found, **facts(job.cfg.model)})


def figure(job: Job, result: Found, run: tracking.Run) -> None:
    """Artifacts: the pictures of the job's kind of experiment, where it has some."""
    with tempfile.TemporaryDirectory() as place:
        for name, drawn, alternative in _drawn(job, result):
            figures.save(drawn, alternative, Path(place) / name)
        run.artifacts(Path(place))


def _drawn(job: Job, result: Found) -> Iterator[tuple[str, Figure, str]]:
    exp, title = job.cfg.exp, f"{job.model}, {job.exp} ({job.dataset})"
    if isinstance(exp, configs.PropagationConfig):
        outcome = OUTCOMES[CARRIES[exp.corpus]]
        targets = result.tables["targets"]
        yield "scatter.png", *figures.scatter(targets, result.analyses, title=title, outcome=outcome)
    elif isinstance(exp, configs.AuditConfig):
        yield "similarities.png", *implicit.heatmap(result.tables["similarities"], title=title)
    elif isinstance(exp, configs.SobitConfig):
        rows = completed(results.named(job.columns, result.analyses))
        for drawing in (one for parts in pictures(rows, 1).values() for one in parts):
            yield f"{drawing.name}.png", drawing.figure, drawing.alternative


def _rho(result: Found) -> dict[str, float]:
    rows = result.analyses
    metrics = {"rho": float(rows["rho"].mean())}
    means = result.tables["targets"].groupby("stratum")["intrinsic"].mean()
    for group, stratum, rho in zip(rows["group"], rows["stratum"], rows["rho"], strict=True):
        if group is not None:
            metrics[f"rho.{group}"] = float(rho)
        metrics[f"effect_size.{stratum}"] = float(means.get(stratum, math.nan))
    return metrics


def _sobit(rows: pd.DataFrame) -> dict[str, float]:
    """Means over words; `significant` counts captions with q of .05 or less for any group."""
    found: dict[str, float] = {}
    for axis, own in rows.groupby("axis"):
        words = own.assign(size=own["association"].abs()).groupby("caption")
        means = {name: words[name].first().mean() for name in SOBIT}
        means |= {"association": words["size"].max().mean(), "words": len(words)}
        means |= {"significant": float((words["q"].min() <= 0.05).sum())} if own["q"].notna().any() else {}
        found |= {f"{name}.{axis}": float(value) for name, value in means.items()}
    return found | {"similarity": float(rows["similarity"].mean())}


def _worth(rows: pd.DataFrame) -> dict[str, float]:
    """How far the job's rhos can be believed, over its analyses, as far as that was asked."""
    found = {name: float(rows[name].mean()) for name in MEANS if name in rows}
    if {"ci_low", "ci_high"} <= set(rows):
        found["ci_width"] = float((rows["ci_high"] - rows["ci_low"]).mean())
    better = report_tables.above(rows)
    return _known(found | ({"above_placebo": float(better.sum())} if better.notna().any() else {}))


def _known(found: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in found.items() if math.isfinite(value)}
