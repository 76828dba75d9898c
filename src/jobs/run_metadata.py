"""Collect the run metadata of a job: tags, metrics and figures."""

import math
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from src import configs, encoders, stimuli, tracking
from src.embeddings import Embeddings
from src.jobs.identity import Job, Named
from src.report.drawing import save
from src.stimuli import IMAGE_ROLES
from src.storage.versions import versions
from src.studies.protocol import StudyResult, study_of

# Libraries that affect numbers or their storage.
LIBRARIES = ("torch", "open_clip_torch", "transformers", "numpy", "scipy", "pandas", "hydra-core", "mlflow")


def provenance() -> dict[str, str]:
    """Return the tags of the running code and of its libraries."""
    libraries = {f"version.{name}": version for name, version in versions(*LIBRARIES).items()}
    return {**commit(configs.CODE), **libraries}


@cache
def commit(checkout: Path) -> dict[str, str]:
    """Return the tags `git.commit` and `git.dirty` of a checkout; `unknown` if no repository starts there."""
    unknown = {"git.commit": "unknown", "git.dirty": "unknown"}

    def git(*arguments: str) -> str:
        completed = subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
        )
        return completed.stdout.strip() if completed.returncode == 0 else "unknown"

    try:
        if git("rev-parse", "--show-prefix"):  # installed within another repository
            return unknown
        return {
            "git.commit": git("rev-parse", "HEAD"),
            "git.dirty": {"": "false", "unknown": "unknown"}.get(git("status", "--porcelain"), "true"),
        }
    except OSError:  # no git on this machine
        return unknown


def job_tags(job: Named, overrides: str) -> dict[str, str]:
    """Return the tags of a job's run that are known before any work."""
    names = {name: str(value) for name, value in job.columns.items()}
    return {**names, **provenance(), "kind": "job", "overrides": overrides}


def model_tags(job: Job) -> dict[str, str]:
    """Return the tags of the weights, their training data, and whether they are random (`weights`)."""
    pretraining = {"pretraining": encoders.family_of(job.cfg.model).pretraining(job.cfg.model)}
    if job.cfg.model.precomputed:
        return pretraining
    weights = encoders.open_encoder(job.cfg, partial(stimuli.load, job.cfg)).weights()
    random = weights["revision"] == "random" or getattr(job.cfg.model, "steps", None) == 0  # untrained toy
    trained = {"weights": "random" if random else "trained"}
    return pretraining | trained | {f"weights.{name}": value for name, value in weights.items()}


def speed(embedded: Mapping[str, Embeddings]) -> dict[str, float]:
    """Return the metrics of stimuli per second, for roles embedded in this run."""
    totals = {"images_per_second": [0, 0.0], "sentences_per_second": [0, 0.0]}
    for role, embeddings in embedded.items():
        if embeddings.seconds:
            name = "images_per_second" if role in IMAGE_ROLES else "sentences_per_second"
            totals[name][0] += len(embeddings.vectors)
            totals[name][1] += embeddings.seconds
    return {name: count / seconds for name, (count, seconds) in totals.items() if seconds}


def metrics(job: Job, result: StudyResult) -> dict[str, float]:
    """Return the metrics of the job's study and the facts of its model, without NaN."""
    facts = encoders.family_of(job.cfg.model).facts(job.cfg.model)
    values = {**study_of(job.cfg.exp).metrics(result), **facts}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def log_figures(job: Job, result: StudyResult, run: tracking.Run) -> None:
    """Log the figures of the job's study as artifacts."""
    with tempfile.TemporaryDirectory() as place:
        for name, figure, alternative in study_of(job.cfg.exp).figures(job.cfg.exp, job.columns, result):
            save(figure, alternative, Path(place) / name)
        run.artifacts(Path(place))
