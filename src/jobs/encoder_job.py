"""Run an encoder job: stimuli, embeddings, projection, experiment, results."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from src import configs, debias, encoders, stimuli, tracking
from src.embeddings import check_prompts, hash_inputs, load_embeddings
from src.errors import InputError, NotApplicable
from src.jobs import run_metadata
from src.jobs.identity import Job
from src.jobs.language_check import check_language, describe_claim
from src.jobs.unread_texts import count_unread, describe_unread_prompts, leave_out_unread
from src.stimuli import CARRIES, PROMPTS, Table
from src.stimuli.perturbations import check_perturbation
from src.stimuli.table import CONTACT_SHEET
from src.storage import cache, results
from src.storage.versions import declared_versions
from src.studies.protocol import load_study

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedEncoderJob:
    """An encoder job whose stimuli are loaded and checked."""

    job: Job  # names and config
    tables: Mapping[str, Table]  # role -> its stimuli; the experiment's prompts have the role `PROMPTS`
    # Prompts that define the directions to remove; None without debiasing.
    debias_prompts: debias.Prompts | None = None
    notes: tuple[str, ...] = ()  # remarks on its language, pictures and prompts


def prepare(job: Job) -> PreparedEncoderJob:
    """Load a job's stimuli, and check them, the weights and the devices before any expensive work.

    Raises `InputError` if something is missing or unsuitable (`NotApplicable` if only for this experiment).
    """
    check_language(job)
    if job.cfg.trainer.devices != 1:
        from src.encoders.trainer import count_devices

        count_devices(job.cfg.trainer)
    encoders.check_usable(job.cfg)
    tables = {role: stimuli.load(job.cfg, role) for role in load_study(job.cfg.exp).roles(job.cfg.exp)}
    tables = leave_out_unread(job.cfg, tables)
    for table in tables.values():
        log.info("%s", table.describe())
    prepared = prepare_from(job, tables)
    return replace(prepared, notes=(*prepared.notes, *describe_unread_prompts(job.cfg, prepared.tables)))


def prepare_from(job: Job, tables: Mapping[str, Table]) -> PreparedEncoderJob:
    """Check a job with given stimuli by role, check its protocol, and add its prompts.

    Raises `InputError`, or `NotApplicable` if another experiment or protocol might work.
    """
    cfg = job.cfg
    _check_specification(job)
    notes = [*describe_claim(job), *check_perturbation(cfg, tables)]
    study = load_study(cfg.exp)
    study.check(cfg, tables)
    prompts = study.prompts(cfg)
    debias_prompts = (
        debias.build_prompts(cfg.debias, _find_groups(cfg, tables)) if cfg.debias.spurious else None
    )
    all_tables = {**tables, **({PROMPTS: prompts} if prompts else {})}
    prepared = PreparedEncoderJob(job, all_tables, debias_prompts, tuple(notes))
    if prompts:
        check_prompts(cfg, prompts)
    if debias_prompts:
        try:
            check_prompts(cfg, debias_prompts.table)
        except NotApplicable as error:
            # The debiasing prompts are missing: no other experiment of this dataset could work either.
            raise InputError(f"debias={cfg.debias.name}: {error}") from None
    return prepared


def _find_groups(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> list[str]:
    """Return the groups whose directions are removed, sorted.

    They come from the job's own stimuli or, if these have no groups, from the dataset's labels or faces.
    """
    group_tables = [table for role, table in tables.items() if CARRIES[role] == "group"]
    for role in ("labels", "faces"):
        if not group_tables:
            try:
                group_tables = [stimuli.load(cfg, role)]
            except NotApplicable:
                continue
    if not group_tables:
        raise InputError(
            f"debias={cfg.debias.name}: neither labels nor faces define the groups. "
            "Add labels.parquet, or use debias=none."
        )
    return sorted({group for table in group_tables for group in table.groups})


def _check_specification(job: Job) -> None:
    """Raise `NotApplicable` if no changed protocol field has an effect: the job would repeat the paper's."""
    ineffective = set(
        job.changed_fields - load_study(job.cfg.exp).protocol_fields(job.cfg.exp, job.cfg.protocol)
    )
    model, roles = job.cfg.model, load_study(job.cfg.exp).roles(job.cfg.exp)
    several_vectors = any(encoders.family_of(model).has_several_vectors(model, role) for role in roles)
    if "pooling" in job.changed_fields and not several_vectors:
        ineffective.add("pooling")
    if ineffective and ineffective == job.changed_fields:
        raise NotApplicable(
            f"protocol={job.protocol}: differs from protocol=paper only in {', '.join(sorted(ineffective))}, "
            f"which has no effect on exp={job.exp}. Use protocol=paper."
        )


def find_contact_sheet(prepared: PreparedEncoderJob) -> Path | None:
    """Return the path of the contact sheet of the job's morphs; None if it uses no morphs."""
    for table in prepared.tables.values():
        if "parent_a" in table.frame.columns and "path" in table.frame.columns:
            path = Path(table.frame["path"].iloc[0]).parent / CONTACT_SHEET
            return path if path.is_file() else None
    return None


def perform(prepared: PreparedEncoderJob, run: tracking.Run, job_key: str = "") -> pd.DataFrame:
    """Embed, project and analyse; write `results/`, log everything, and return the job's analyses.csv.

    `job_key` is empty with `resume=false`, or if the key depends on weights that this call trains first.
    Raises `InputError` if a stimulus cannot be embedded, or if vectors do not match their table.
    """
    job, cfg = prepared.job, prepared.job.cfg
    hashes = {f"input.{role}": table.hash for role, table in prepared.tables.items()}
    run.log(tags=hashes | {f"used.{role}": table.describe() for role, table in prepared.tables.items()})
    # The projection comes first: it is quick, and its errors surface before the expensive embedding.
    projection = None
    if prompts := prepared.debias_prompts:
        prompt_vectors = load_embeddings(cfg, PROMPTS, _make_loader(cfg, prompts.table)).vectors
        projection = debias.compute_projection(cfg.debias, prompts, prompt_vectors)
    embeddings = {
        role: load_embeddings(cfg, role, _make_loader(cfg, table)) for role, table in prepared.tables.items()
    }
    input_hashes = {f"{job.dataset} {role}": table.hash for role, table in prepared.tables.items()}
    input_hashes |= {f"{role} by {job.model}": embedded.hash for role, embedded in embeddings.items()}
    run.log_inputs(input_hashes)
    start = time.perf_counter()
    tables = dict(prepared.tables)
    vectors = {role: embedded.vectors for role, embedded in embeddings.items()}
    notes = [*prepared.notes]
    if prompts and projection is not None:
        notes.append(f"debias={cfg.debias.name}: removed {', '.join(map(repr, prompts.spurious))}")
        for role in sorted({*debias.select_projected_roles(cfg.debias)} & {*tables}):
            tables[role], vectors[role], removals = debias.project(tables[role], vectors[role], projection)
            notes += removals
    result = load_study(cfg.exp).run(cfg, tables, vectors)
    seconds = time.perf_counter() - start
    notes = [*notes, *result.notes]
    for note in notes:
        log.info("%s", note)
    input_notes = [f"{role}: {note}" for role, table in prepared.tables.items() for note in table.notes]
    embedding_notes = [note for embedded in embeddings.values() for note in embedded.notes]
    notes = [*input_notes, *embedding_notes, *notes]
    text_counts = count_unread(prepared.tables)
    columns = {**job.columns, **text_counts}
    if cfg.language.code != configs.ENGLISH and "words" in prepared.tables:
        columns["ratings"] = configs.classify_ratings(cfg.words)
    analyses = results.with_job_columns(columns, result.analyses)
    results.write(job.output, analyses, result.tables)
    tags = {
        "notes": "; ".join(notes),
        "key": job_key or compute_key(prepared),
        "results": results.compute_digest(job.output),
    }
    tags |= {f"input.{role}.vectors": embedded.hash for role, embedded in embeddings.items()}
    metrics = {**run_metadata.collect_metrics(job, result), **run_metadata.compute_speed(embeddings)}
    metrics["speed.analysis_seconds"] = seconds
    if text_counts:
        metrics["unread_share"] = text_counts["n_unread"] / text_counts["n_texts"]
    run.log(tags={**run_metadata.build_model_tags(job), **tags}, metrics=metrics)
    run.log_artifacts(job.output / results.FOLDER, results.FOLDER)
    run_metadata.log_figures(run, job, result)
    return results.read(job.output)


def _make_loader(cfg: configs.RunConfig, table: Table) -> Callable[[str], Table]:
    """Return a function that returns the given table for its role, and loads any other role's table.

    Toy encoders train on all four roles, whichever the job embeds.
    """
    return lambda role: table if role == table.role else stimuli.load(cfg, role)


def compute_key(prepared: PreparedEncoderJob) -> str:
    """Return the hash of everything that determines a job's numbers: config, inputs, versions of the code.

    Raises `InputError` if precomputed vectors are missing, and `NotStored` within `forbid_building` if the
    weights are not stored.
    """
    cfg, tables = prepared.job.cfg, dict(prepared.tables)
    versions = load_study(cfg.exp).versions(cfg)
    if prepared.debias_prompts:
        tables["removed"] = prepared.debias_prompts.table
        versions |= declared_versions("debias")
    inputs = {}
    for name, table in tables.items():
        inputs[name] = [table.hash, hash_inputs(cfg, table.role, _make_loader(cfg, table))]
        inputs[name] += [table.cluster_hash] if table.cluster_hash else []
        inputs[name] += [f"people {table.people_hash}"] if table.people_hash else []
    return cache.fingerprint([prepared.job.config_hash, inputs, versions])
