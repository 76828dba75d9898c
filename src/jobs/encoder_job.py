"""Job of an encoder: stimuli, embeddings, projection, experiment, results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from src import configs, debias, encoders, stimuli, tracking
from src.embeddings import Embeddings, embeddings, require
from src.embeddings import key as vector_key
from src.errors import InputError, NotApplicable
from src.jobs import run_metadata
from src.jobs.identity import Job
from src.stimuli import CARRIES, PROMPTS, SHEET, Table
from src.storage import cache, results
from src.storage.versions import declared
from src.studies.protocol import study_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A job whose stimuli are there and suffice.

    Attributes:
        job: which.
        tables: of the roles that it shows, prompts of its experiment included.
        removed: what is projected away; None where nothing is.
    """

    job: Job
    tables: Mapping[str, Table]
    removed: debias.Prompts | None = None


def prepare(job: Job) -> Prepared:
    """See that weights are there and that the stimuli suffice, before any work is spent.

    Raises:
        InputError: they are not, or do not; `NotApplicable` where another experiment might be served. Or the
            trainer asks for more devices than there are.
    """
    if job.cfg.trainer.devices != 1:
        from src.encoders.trainer import devices

        devices(job.cfg.trainer)
    encoders.require(job.cfg)
    tables = {role: stimuli.load(job.cfg, role) for role in study_of(job.cfg.exp).roles(job.cfg.exp)}
    for table in tables.values():
        log.info("%s", table.statement())
    return suffice(job, tables)


def suffice(job: Job, tables: Mapping[str, Table]) -> Prepared:
    """See that the stimuli suffice for a job, and that its protocol decides something there.

    Args:
        job: which.
        tables: of the roles of the dataset that it shows.

    Raises:
        InputError: they do not; `NotApplicable` where another experiment or protocol might be served.
    """
    cfg = job.cfg
    _differs(job)
    study = study_of(cfg.exp)
    study.check(cfg, tables)
    own = study.prompts(cfg)
    removed = debias.prompts(cfg.debias, _groups(cfg, tables)) if cfg.debias.spurious else None
    prepared = Prepared(job, {**tables, **({PROMPTS: own} if own else {})}, removed)
    if own:
        require(cfg, own)
    if removed:
        try:
            require(cfg, removed.table)
        except NotApplicable as error:
            # Not for the experiment's sake: no other one could be served either.
            raise InputError(f"debias={cfg.debias.name}: {error}") from None
    return prepared


def _groups(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> list[str]:
    """Groups whose directions a projection removes: those of the job's own stimuli, else of the dataset's.

    Raises:
        InputError: nothing of the dataset carries groups.
    """
    shown = [table for role, table in tables.items() if CARRIES[role] == "group"]
    for role in ("labels", "faces"):
        if not shown:
            try:
                shown = [stimuli.load(cfg, role)]
            except NotApplicable:
                continue
    if not shown:
        raise InputError(
            f"debias={cfg.debias.name}: neither labels nor faces are there to say which groups are meant. "
            "Add labels.parquet, or choose debias=none."
        )
    return sorted({group for table in shown for group in table.groups})


def _differs(job: Job) -> None:
    """See that the chosen reading is another one here than the paper's, so that no reading counts twice.

    Raises:
        NotApplicable: it is not.
    """
    idle = set(job.reading - study_of(job.cfg.exp).protocol_fields(job.cfg.exp, job.cfg.protocol))
    model, roles = job.cfg.model, study_of(job.cfg.exp).roles(job.cfg.exp)
    if "pooling" in job.reading and not any(encoders.family_of(model).several(model, role) for role in roles):
        idle.add("pooling")
    if idle and idle == job.reading:
        raise NotApplicable(
            f"protocol={job.protocol}: differs from protocol=paper in {', '.join(sorted(idle))} only, which "
            f"decides nothing in exp={job.exp}. Say protocol=paper."
        )


def sheet(prepared: Prepared) -> Path | None:
    """The contact sheet of the morphs that a job shows; None where it shows none."""
    for table in prepared.tables.values():
        if "parent_a" in table.frame.columns and "path" in table.frame.columns:
            path = Path(table.frame["path"].iloc[0]).parent / SHEET
            return path if path.is_file() else None
    return None


def perform(prepared: Prepared, run: tracking.Run, job_key: str = "") -> pd.DataFrame:
    """Embed, project, analyse, write `results/`, and log all of it.

    Args:
        prepared: the job.
        run: its MLflow run.
        job_key: its key; empty if weights had to be made first, so that it is computed here.

    Returns:
        The job's analyses.csv.

    Raises:
        InputError: a stimulus cannot be embedded, or vectors do not fit their table.
    """
    job, cfg = prepared.job, prepared.job.cfg
    run.log(tags=run_metadata.tables(prepared.tables))
    # First what is removed: it is quick, and what is wrong with it is said before much is embedded.
    projected = _projection(prepared)
    vectors = {role: embeddings(cfg, role, _shown(cfg, table)) for role, table in prepared.tables.items()}
    run.inputs(run_metadata.inputs(job, prepared.tables, vectors))
    start = time.perf_counter()
    tables, seen, notes = projected(vectors)
    result = study_of(cfg.exp).run(cfg, tables, seen)
    seconds = time.perf_counter() - start
    notes = [*notes, *result.notes]
    for note in notes:
        log.info("%s", note)
    read = [f"{role}: {note}" for role, table in prepared.tables.items() for note in table.notes]
    notes = [*read, *(note for role in vectors for note in vectors[role].notes), *notes]
    results.write(job.output, results.named(job.columns, result.analyses), result.tables)
    told = {"notes": "; ".join(notes), "key": job_key or key(prepared), "results": results.digest(job.output)}
    run.log(
        tags={**run_metadata.vectors(vectors), **run_metadata.model(job), **told},
        metrics={
            **run_metadata.metrics(job, result),
            **run_metadata.speed(vectors),
            "analysis_seconds": seconds,
        },
    )
    run.artifacts(job.output / results.FOLDER, results.FOLDER)
    run_metadata.figures(job, result, run)
    return results.read(job.output)


Seen = tuple[Mapping[str, Table], Mapping[str, Any], list[str]]


def _projection(prepared: Prepared) -> Callable[[Mapping[str, Embeddings]], Seen]:
    """What makes of vectors, and their tables, those that the experiment sees; and what left by it."""
    removed, cfg = prepared.removed, prepared.job.cfg
    if removed is None:
        return lambda vectors: (prepared.tables, {role: own.vectors for role, own in vectors.items()}, [])
    prompts = embeddings(cfg, PROMPTS, _shown(cfg, removed.table))
    projection = debias.projection(cfg.debias, removed, prompts.vectors)
    sides = debias.sides(cfg.debias)

    def projected(vectors: Mapping[str, Embeddings]) -> Seen:
        tables, seen = dict(prepared.tables), {role: own.vectors for role, own in vectors.items()}
        notes = [f"debias={cfg.debias.name}: removed {', '.join(map(repr, removed.spurious))}"]
        for role in sorted({*sides} & {*tables}):
            tables[role], seen[role], said = debias.project(tables[role], seen[role], projection)
            notes += said
        return tables, seen, notes

    return projected


def _shown(cfg: configs.RunConfig, table: Table) -> Callable[[str], Table]:
    """Stimulus tables by role, one of which is at hand; a toy is trained on the others."""
    return lambda role: table if role == table.role else stimuli.load(cfg, role)


def key(prepared: Prepared) -> str:
    """Hash of all that decides a job's numbers: its config, its inputs, the versions of what computes them.

    Raises:
        InputError: vectors are missing.
        NotStored: within `cache.dry`, where weights have to be made first.
    """
    cfg = prepared.job.cfg
    shown = {**prepared.tables, **({"removed": prepared.removed.table} if prepared.removed else {})}
    inputs = {
        name: [table.hash, vector_key(cfg, table.role, _shown(cfg, table))] for name, table in shown.items()
    }
    versions = study_of(cfg.exp).versions(cfg)
    if prepared.removed:
        versions |= declared("debias")
    return cache.fingerprint([prepared.job.config_hash, inputs, versions])
