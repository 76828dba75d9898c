"""Run one job: prepare, reuse or compute in an MLflow run that records the outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import pandas as pd
from omegaconf import DictConfig

from src.errors import (
    RESUME_HINT,
    InputError,
    NotApplicable,
    describe_access,
    describe_memory,
    raise_if_interrupted,
    redact,
    write_refusal,
)
from src.jobs import run_metadata
from src.jobs.identity import NamedConfig
from src.jobs.run_metadata import name_run
from src.storage import cache, results
from src.tracking import Run, Tracker, Unreachable

if TYPE_CHECKING:
    from src.jobs.plan import JobPlan

log = logging.getLogger(__name__)

J = TypeVar("J", bound=NamedConfig)
P = TypeVar("P")  # prepared job

# Statuses of a job that ended, as tables and runs store them ("taken_over": reused).
FINISHED, REUSED, FAILED, NOT_APPLICABLE = "finished", "taken_over", "failed", "not_applicable"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job."""

    status: str  # one of the statuses above
    run: str = ""  # id of the MLflow run with its results or its failure; empty if it has no run
    # Why the job failed or is not applicable; after an outage of the store it has failed, although its
    # results are in its folder.
    reason: str = ""
    # The sweep fills in the user's overrides of the job, and the first columns of its analyses.csv, which
    # remain empty if the job could not be built.
    overrides: str = ""
    columns: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Recorder:
    """Recorder of one dataset's jobs; their runs form one MLflow experiment."""

    tracker: Tracker  # store of their runs
    parent: Run | None  # parent run; None for a job outside of a sweep
    command: str = ""  # command line of the user
    logged_sheets: set[Path] = field(default_factory=set)  # contact sheets of morphs logged so far

    def log_sheet(self, sheet: Path | None, run: Run | None) -> None:
        """Log a contact sheet once, with the parent run, or with the job's run if it has no parent."""
        owner = self.parent or run
        if sheet is None or owner is None or sheet in self.logged_sheets:
            return
        try:
            owner.log_artifacts(sheet, "morphs")
        except InputError as error:  # the store may be unreachable for a while: the next job tries again
            log.warning("cannot store %s yet: %s", sheet, error)
            return
        self.logged_sheets.add(sheet)


@dataclass(frozen=True)
class Runner(Generic[J, P]):
    """Functions that build, plan, prepare and perform one kind of job: encoder or generator jobs."""

    # (composed config, config group -> chosen YAML, output folder) -> job.
    build_job: Callable[[DictConfig, Mapping[str, str], str], J]
    plan: Callable[[J], JobPlan]  # (job) -> expected work and cost
    prepare: Callable[[J], P]  # (job) -> its inputs, checked before any expensive work
    # (prepared job) -> hash of all that determines its numbers; raises `NotStored` within
    # `cache.forbid_building` if weights have to be trained first.
    compute_key: Callable[[P], str]
    # (prepared job, run, key or an empty text) -> its analyses.csv; writes and logs its results.
    perform: Callable[[P, Run, str], pd.DataFrame]
    # (prepared job) -> path of the contact sheet of its morphs, or None.
    find_contact_sheet: Callable[[P], Path | None] = lambda _: None


def run(
    job: J, runner: Runner[J, P], recorder: Recorder, overrides: str, *, has_glob: bool
) -> tuple[Outcome, pd.DataFrame | None]:
    """Run one job, and record its failure if it fails.

    `has_glob`: whether the command selects experiments, tasks, protocols or perturbations by a glob; a job
    that is not applicable is then skipped instead of failed.
    Returns the outcome and, if the job is finished or reused, its analyses.csv; else None.
    """
    raise_if_interrupted()
    prepared, failure, key = None, None, ""
    try:
        prepared = runner.prepare(job)
        # Before the job has a run: with the parent run, if there is one.
        recorder.log_sheet(runner.find_contact_sheet(prepared), None)
        if job.cfg.resume:
            # The key remains empty if it depends on weights that have to be trained first.
            with suppress(cache.NotStored), cache.forbid_building():
                key = runner.compute_key(prepared)
        if key and (reused := _reuse(job, key, recorder.tracker)):
            return Outcome(REUSED, reused[0]), reused[1]
    except Exception as error:
        raise_if_interrupted()
        if isinstance(error, NotApplicable) and has_glob:  # a combination that nobody named
            log.warning("%s: not applicable: %s", job.label, error)
            return Outcome(NOT_APPLICABLE, reason=str(error)), None
        failure = error
    job_run = recorder.tracker.start_job_run(job.dataset, name_run(job), recorder.parent)
    try:
        with recorder.tracker.end_on_exit(job_run):
            try:
                run_metadata.log_job(job_run, job, overrides, recorder.command)
                if prepared is None or failure:
                    # Always `failure`: without one, the job is prepared, which type checkers cannot know.
                    raise failure or AssertionError
                # Without a parent run, or if the store did not answer above.
                recorder.log_sheet(runner.find_contact_sheet(prepared), job_run)
                analyses = runner.perform(prepared, job_run, key)
                run_metadata.log_description(job_run, job, analyses)
            except Exception as error:
                raise_if_interrupted()
                if isinstance(error, InputError):
                    job_run.log(tags={"description": f"**Failed.** {redact(str(error))}"})
                raise
        if job_run.outage:
            raise InputError(
                f"{job_run.outage}: results are in {job.output / results.FOLDER}, not in the store. Run the "
                "same command again once the store answers."
            )
    except Exception as error:
        return log_failure(error, job, job_run.id), None
    return Outcome(FINISHED, job_run.id), analyses


def log_failure(error: Exception, job: NamedConfig | None = None, run_id: str = "") -> Outcome:
    """Log the error of a job (None if the job could not be built), and return its outcome.

    Any other error than an `InputError`, a file without permission, too little memory or a refused write to
    the store is a bug in this program.
    """
    if not isinstance(error, InputError) and (message := describe_access(error) or describe_memory(error)):
        error = InputError(message)
    if job and not isinstance(error, InputError) and (why := write_refusal(error)):
        uri = redact(job.cfg.tracking.uri)
        error = InputError(f"tracking.uri={uri}: cannot be written ({why}). {RESUME_HINT}")
    if isinstance(error, InputError):
        log.error("%s", error)
        return Outcome(FAILED, run_id, str(error))
    log.error("this is a bug in this program, not an error in its input", exc_info=error)
    return Outcome(FAILED, run_id, repr(error))


def _reuse(job: NamedConfig, key: str, tracker: Tracker) -> tuple[str, pd.DataFrame] | None:
    """Copy the results of a finished job with the same key, if any.

    Returns the id of its run and its analyses.csv; None if no such job has readable results.
    """
    try:
        for run in tracker.find_finished(job.dataset, key):
            try:
                results.reuse(job.output, partial(run.fetch, results.FOLDER), run.read_tag("results"))
            except OSError as error:
                log.warning("%s: results of run %s cannot be read (%s): not used", job.label, run.id, error)
                continue
            log.info("%s: finished already, in run %s", job.label, run.id)
            return run.id, results.read(job.output)
    except Unreachable as error:
        log.warning("%s: cannot check whether it is finished already: %s", job.label, error)
    return None
