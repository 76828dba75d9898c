"""Runner of one job: prepare, reuse or compute, and record the outcome in one MLflow run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import pandas as pd
from omegaconf import DictConfig

from src.errors import GOES_ON, InputError, NotApplicable, masked, raise_pending_interrupt, refused
from src.jobs import run_metadata
from src.jobs.identity import Named
from src.storage import cache, results
from src.tracking import Run, Tracker, Unreachable

if TYPE_CHECKING:
    from src.jobs.plan import Planned

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Named)
P = TypeVar("P")

# Statuses of a job that ended.
FINISHED, TAKEN_OVER, FAILED, NOT_APPLICABLE = "finished", "taken_over", "failed", "not_applicable"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job.

    Attributes:
        status: one of the statuses above.
        run: id of the MLflow run that holds its results, or its failure; empty if it has no run.
        reason: why there are no results; empty if there are.
        overrides: overrides of the job, as typed.
        columns: first columns of analyses.csv; empty if the job could not be named.
    """

    status: str
    run: str = ""
    reason: str = ""
    overrides: str = ""
    columns: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Recorder:
    """Tracking of the jobs of one dataset, which is one MLflow experiment.

    Attributes:
        tracker: the store that holds their runs.
        parent: their parent run; None for a job outside of a sweep.
        sheets: contact sheets of morphs that are logged already.
    """

    tracker: Tracker
    parent: Run | None
    sheets: set[Path] = field(default_factory=set)

    def log_sheet(self, sheet: Path | None, run: Run | None) -> None:
        """Log a contact sheet, once, with the parent run, or with a run that has no parent."""
        owner = self.parent or run
        if sheet is None or owner is None or sheet in self.sheets:
            return
        try:
            owner.artifact(sheet, "morphs")
        except InputError as error:  # the store may be out of reach for a while: the next job tries again
            log.warning("%s is not kept now: %s", sheet, error)
            return
        self.sheets.add(sheet)


@dataclass(frozen=True)
class Runner(Generic[J, P]):
    """Steps of one kind of jobs: those of encoders, or of generative models.

    Attributes:
        name: (composed config, YAML chosen of each group, output folder) -> job.
        plan: (job) -> expected work and cost.
        prepare: (job) -> its inputs, checked before any work is spent.
        sheet: (prepared) -> contact sheet of the morphs that it shows, or None.
        key: (prepared) -> hash of all that decides its numbers; raises `cache.NotStored` within `cache.dry`
            if weights have to be made first.
        perform: (prepared, run, key; empty if it has to be computed) -> its analyses.csv, after writing and
            logging its results.
    """

    name: Callable[[DictConfig, Mapping[str, str], str], J]
    plan: Callable[[J], Planned]
    prepare: Callable[[J], P]
    sheet: Callable[[P], Path | None]
    key: Callable[[P], str]
    perform: Callable[[P, Run, str], pd.DataFrame]

    def key_now(self, prepared: P) -> str:
        """Return the key of a job; empty if weights have to be made first."""
        try:
            with cache.dry():
                return self.key(prepared)
        except cache.NotStored:
            return ""


def run(
    job: J, runner: Runner[J, P], recorder: Recorder, overrides: str, *, globbed: bool
) -> tuple[Outcome, pd.DataFrame | None]:
    """Run one job. Its failure is recorded, not raised.

    Args:
        job: job to run.
        runner: steps of its kind.
        recorder: tracking of its dataset.
        overrides: its overrides, as typed.
        globbed: whether a glob named it, so that a job that does not apply is listed, and no error.

    Returns:
        Its outcome, and its analyses.csv if it has results.
    """
    raise_pending_interrupt()
    prepared, failure, key = None, None, ""
    try:
        prepared = runner.prepare(job)
        recorder.log_sheet(runner.sheet(prepared), None)
        key = runner.key_now(prepared) if job.cfg.resume else ""
        if key and (reused := _reuse(job, key, recorder.tracker)):
            return Outcome(TAKEN_OVER, reused[0]), reused[1]
    except Exception as error:
        raise_pending_interrupt()
        if isinstance(error, NotApplicable) and globbed:
            log.warning("%s: not applicable: %s", job.label, error)
            return Outcome(NOT_APPLICABLE, reason=str(error)), None
        failure = error
    tracked = recorder.tracker.job(job.dataset, job.label, recorder.parent)
    try:
        with recorder.tracker.recorded(tracked):
            try:
                tracked.log(params=job.resolved, tags=run_metadata.job_tags(job, overrides))
                if prepared is None or failure:
                    raise failure or AssertionError
                recorder.log_sheet(runner.sheet(prepared), tracked)
                analyses = runner.perform(prepared, tracked, key)
            except Exception:
                raise_pending_interrupt()
                raise
        if tracked.lost:
            raise InputError(
                f"{tracked.lost}: results are in {job.output / results.FOLDER}, not in the store. Once it "
                "answers, the same command does what is missing."
            )
    except Exception as error:
        return failed(error, job, tracked.id), None
    return Outcome(FINISHED, tracked.id), analyses


def failed(error: Exception, job: Named | None = None, run_id: str = "") -> Outcome:
    """Log why a job failed, and return its outcome.

    Args:
        error: cause; any but an `InputError`, or a refused write to the store, is a fault of the program.
        job: job that failed; None if it could not be named.
        run_id: MLflow run of the failure.
    """
    if job and not isinstance(error, InputError) and (why := refused(error)):
        uri = masked(job.cfg.tracking.uri)
        error = InputError(f"tracking.uri={uri}: cannot be written ({why}). {GOES_ON}")
    if isinstance(error, InputError):
        log.error("%s", error)
        return Outcome(FAILED, run_id, str(error))
    log.error("this is a fault of the program, not of its input", exc_info=error)
    return Outcome(FAILED, run_id, repr(error))


def _reuse(job: Named, key: str, tracker: Tracker) -> tuple[str, pd.DataFrame] | None:
    """Reuse the results of a finished job of the same key, if any: its run and its analyses.csv."""
    try:
        for run in tracker.finished(job.dataset, key):
            try:
                results.take_over(job.output, partial(run.fetch, results.FOLDER), run.tag("results"))
            except OSError as error:
                log.warning("%s: results of run %s cannot be read (%s): not used", job.label, run.id, error)
                continue
            log.info("%s: finished already, in run %s", job.label, run.id)
            return run.id, results.read(job.output)
    except Unreachable as error:
        log.warning("%s: whether it is finished already cannot be asked: %s", job.label, error)
    return None
