"""Run metadata of a job: tags, metrics and figures."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from src import configs, encoders, stimuli, tracking
from src.embeddings import Embeddings
from src.jobs.identity import Job, Named
from src.report.drawing import save
from src.stimuli import IMAGE_ROLES, Table
from src.studies.protocol import StudyResult, study_of


def provenance() -> dict[str, str]:
    """Tags of the code that runs, libraries included."""
    return {**tracking.commit(configs.CODE), **tracking.versions()}


def job_tags(job: Named, overrides: str) -> dict[str, str]:
    """Return the tags of a job's run that are known before any work."""
    names = {name: str(value) for name, value in job.columns.items()}
    return {**names, **provenance(), "kind": "job", "overrides": overrides}


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
    told = {"pretraining": encoders.family_of(job.cfg.model).pretraining(job.cfg.model)}
    if job.cfg.model.precomputed:
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


def metrics(job: Job, result: StudyResult) -> dict[str, float]:
    """Return the metrics of the job's study, and what is known of its model; NaN is left out."""
    facts = encoders.family_of(job.cfg.model).facts(job.cfg.model)
    every = {**study_of(job.cfg.exp).metrics(result), **facts}
    return {name: value for name, value in every.items() if math.isfinite(value)}


def figures(job: Job, result: StudyResult, run: tracking.Run) -> None:
    """Log the figures of the job's study as artifacts."""
    with tempfile.TemporaryDirectory() as place:
        for name, figure, alternative in study_of(job.cfg.exp).figures(job.cfg.exp, job.columns, result):
            save(figure, alternative, Path(place) / name)
        run.artifacts(Path(place))
