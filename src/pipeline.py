"""What a job does: stimuli, embeddings, experiment, results, tracking."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from src import artifacts, configs, encoders, experiments, results, stimuli, tracking
from src.embeddings import Embeddings, embeddings
from src.embeddings import key as vector_key
from src.embeddings.precomputed import several
from src.encoders.facts import facts
from src.errors import NotApplicable
from src.experiments import Result
from src.jobs import Job
from src.report import figures, tables
from src.stimuli import CARRIES, IMAGE_ROLES, SHEET, Table

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parent
# Rooms whose code decides what is made of vectors.
DECISIVE = ("metrics", "experiments", "debias")
MEANS = ("placebo_mean", "placebo_q95", "validity")
OUTCOMES = {
    "valence": "mean valence of what is retrieved",
    "group": "share of the group in what is retrieved",
}


@dataclass(frozen=True)
class Prepared:
    """A job whose stimuli are there and suffice."""

    job: Job
    targets: Table
    corpus: Table


def prepare(job: Job) -> Prepared:
    """See that weights are there and that the stimuli suffice, before any work is spent.

    Raises:
        InputError: they are not, or do not; `NotApplicable` where another experiment might be served.
    """
    encoders.require(job.cfg)
    targets, corpus = (stimuli.load(job.cfg, role) for role in (job.cfg.exp.targets, job.cfg.exp.corpus))
    for table in (targets, corpus):
        log.info("%s", table.statement())
    suffice(job, targets, corpus)
    return Prepared(job, targets, corpus)


def suffice(job: Job, targets: Table, corpus: Table) -> None:
    """See that the stimuli suffice for a job, and that its protocol decides something there.

    Raises:
        InputError: they do not; `NotApplicable` where another experiment or protocol might be served.
    """
    _differs(job)
    experiments.check(targets, corpus, job.cfg.protocol, job.cfg.seed)


def _differs(job: Job) -> None:
    """See that the chosen reading is another one here than the paper's, so that no reading counts twice.

    Raises:
        NotApplicable: it is not.
    """
    exp = job.cfg.exp
    idle = {field for field in job.reading if experiments.unused(field, exp.targets, exp.corpus)}
    if "pooling" in job.reading and not _several(job.cfg):
        idle.add("pooling")
    if idle and idle == job.reading:
        raise NotApplicable(
            f"protocol={job.protocol}: differs from protocol=paper in {', '.join(sorted(idle))} only, which "
            f"decides nothing here ({exp.targets} look for {exp.corpus}). Say protocol=paper."
        )


def _several(cfg: configs.RunConfig) -> bool:
    """Whether an image has several vectors."""
    if isinstance(cfg.model, configs.PrecomputedConfig):
        role = cfg.exp.targets if cfg.exp.targets in IMAGE_ROLES else cfg.exp.corpus
        return several(Path(cfg.model.path), role)
    return isinstance(cfg.model, configs.Blip2Config) and cfg.model.pooling == "max"


def sheet(prepared: Prepared) -> Path | None:
    """The contact sheet of the morphs that a job shows; None where it shows none."""
    for table in (prepared.targets, prepared.corpus):
        if "parent_a" in table.frame.columns and "path" in table.frame.columns:
            path = Path(table.frame["path"].iloc[0]).parent / SHEET
            return path if path.is_file() else None
    return None


def perform(prepared: Prepared, run: tracking.Run) -> pd.DataFrame:
    """Embed, analyse, write `results/`, and log all of it.

    Returns:
        The job's analyses.csv.

    Raises:
        InputError: a stimulus cannot be embedded, or vectors do not fit their table.
    """
    job, cfg = prepared.job, prepared.job.cfg
    run.log(tags=_table_tags(prepared))
    table = partial(stimuli.load, cfg)
    vectors = {role: embeddings(cfg, role, table) for role in (cfg.exp.targets, cfg.exp.corpus)}
    run.inputs(_inputs(prepared, vectors))
    start = time.perf_counter()
    result = experiments.run(
        prepared.targets,
        prepared.corpus,
        vectors[cfg.exp.targets].vectors,
        vectors[cfg.exp.corpus].vectors,
        cfg.protocol,
        cfg.seed,
    )
    seconds = time.perf_counter() - start
    for note in result.notes:
        log.info("%s", note)
    analyses = pd.concat([pd.DataFrame([job.columns] * len(result.analyses)), result.analyses], axis=1)
    results.write(job.output, analyses, result.tables)
    _log(prepared, run, result, vectors, seconds)
    return results.read(job.output)


def _log(
    prepared: Prepared, run: tracking.Run, result: Result, vectors: Mapping[str, Embeddings], seconds: float
) -> None:
    job = prepared.job
    run.log(
        tags={
            **_vector_tags(vectors),
            **_weight_tags(job),
            "notes": "; ".join(result.notes),
            "key": key(prepared),
            "results": results.digest(job.output),
        },
        metrics={
            **_rho(result),
            **_worth(result.analyses),
            **_known(facts(job.cfg.model)),
            **_speed(prepared, vectors),
            "analysis_seconds": seconds,
        },
    )
    run.artifacts(job.output / results.FOLDER, results.FOLDER)
    with tempfile.TemporaryDirectory() as place:
        figure, alternative = figures.scatter(
            result.targets,
            result.analyses,
            title=f"{job.model}, {job.exp} ({job.dataset})",
            outcome=OUTCOMES[CARRIES[prepared.corpus.role]],
        )
        figures.save(figure, alternative, Path(place) / "scatter.png")
        run.artifacts(Path(place))


def key(prepared: Prepared) -> str:
    """Hash of all that decides a job's numbers: its config, its inputs and the code (DESIGN.md, "Resume").

    Raises:
        InputError: vectors are missing.
        NotStored: within `artifacts.dry`, where weights have to be made first.
    """
    cfg = prepared.job.cfg
    table = partial(stimuli.load, cfg)
    inputs = {
        shown.role: [shown.hash, vector_key(cfg, shown.role, table)]
        for shown in (prepared.targets, prepared.corpus)
    }
    sources = sorted(path for room in DECISIVE for path in (SOURCES / room).glob("*.py"))
    return artifacts.fingerprint([prepared.job.config_hash, inputs, artifacts.source_hash(*sources)])


def resume(prepared: Prepared, tracker: tracking.Tracker) -> tuple[str, pd.DataFrame] | None:
    """Take over the results of a finished job of the same key, where there is one.

    Returns:
        The id of its run, and its analyses.csv.
    """
    job = prepared.job
    try:
        with artifacts.dry():
            wanted = key(prepared)
    except artifacts.NotStored:
        return None
    found = tracker.finished(job.dataset, wanted)
    if found is None:
        return None
    try:
        results.take_over(
            job.output, lambda folder: found.fetch(results.FOLDER, folder), found.tag("results")
        )
    except OSError as error:
        log.warning("%s: results of run %s cannot be read (%s): computed anew", job.label, found.id, error)
        return None
    log.info("%s: finished already, in run %s", job.label, found.id)
    return found.id, results.read(job.output)


def tags(job: Job) -> dict[str, str]:
    """Tags of a run that are known before any work."""
    named = {name: str(value) for name, value in job.columns.items()}
    return {**named, **provenance(), "kind": "job"}


def provenance() -> dict[str, str]:
    """Tags of the code that runs, libraries included."""
    return {**tracking.commit(configs.CHECKOUT), **tracking.versions()}


def params(job: Job) -> dict[str, object]:
    """Every choice, by its name on the command line."""
    return _flat(job.resolved)


def _table_tags(prepared: Prepared) -> dict[str, str]:
    found = {}
    for table in (prepared.targets, prepared.corpus):
        found[f"input.{table.role}"] = table.hash
        found[f"used.{table.role}"] = table.statement()
    return found


def _vector_tags(vectors: Mapping[str, Embeddings]) -> dict[str, str]:
    return {f"input.{role}.vectors": found.hash for role, found in vectors.items()}


def _weight_tags(job: Job) -> dict[str, str]:
    """Which weights looked; `weights` says whether they are random."""
    if isinstance(job.cfg.model, configs.PrecomputedConfig):
        return {}
    said = encoders.open_encoder(job.cfg, partial(stimuli.load, job.cfg)).weights()
    random = said["revision"] == "random" or getattr(job.cfg.model, "steps", None) == 0
    trained = {"weights": "random" if random else "trained"}
    return trained | {f"weights.{name}": value for name, value in said.items()}


def _inputs(prepared: Prepared, vectors: Mapping[str, Embeddings]) -> dict[str, str]:
    """SHA-256 of each table of stimuli and of its vectors, by name."""
    tables = {
        f"{prepared.job.dataset} {table.role}": table.hash for table in (prepared.targets, prepared.corpus)
    }
    looked = {f"{role} by {prepared.job.model}": found.hash for role, found in vectors.items()}
    return tables | looked


def _rho(result: Result) -> dict[str, float]:
    rows = result.analyses
    metrics = {"rho": float(rows["rho"].mean())}
    means = result.targets.groupby("stratum")["intrinsic"].mean()
    for group, stratum, rho in zip(rows["group"], rows["stratum"], rows["rho"], strict=True):
        if group is not None:
            metrics[f"rho.{group}"] = float(rho)
        metrics[f"effect_size.{stratum}"] = float(means.get(stratum, math.nan))
    return metrics


def _worth(rows: pd.DataFrame) -> dict[str, float]:
    """How far the job's rhos can be believed, over its analyses, as far as that was asked."""
    asked = {name: float(rows[name].mean()) for name in MEANS if name in rows}
    if {"ci_low", "ci_high"} <= set(rows):
        asked["ci_width"] = float((rows["ci_high"] - rows["ci_low"]).mean())
    found = _known(asked)
    better = tables.above(rows)
    return found | ({"above_placebo": float(better.sum())} if better.notna().any() else {})


def _known(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _speed(prepared: Prepared, vectors: Mapping[str, Embeddings]) -> dict[str, float]:
    shown = {"images_per_second": [0, 0.0], "sentences_per_second": [0, 0.0]}
    for table in (prepared.targets, prepared.corpus):
        if vectors[table.role].seconds:
            name = "images_per_second" if table.role in IMAGE_ROLES else "sentences_per_second"
            shown[name][0] += len(table.frame)
            shown[name][1] += vectors[table.role].seconds
    return {name: count / seconds for name, (count, seconds) in shown.items() if seconds}


def _flat(node: object, prefix: str = "") -> dict[str, object]:
    if isinstance(node, Mapping):
        parts = (_flat(value, f"{prefix}.{name}" if prefix else str(name)) for name, value in node.items())
        return {name: value for part in parts for name, value in part.items()}
    return {prefix: node}
