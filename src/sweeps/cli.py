"""What every Hydra entry does: make each job, record how it ended, and close the sweep at the end."""

from __future__ import annotations

import atexit
import gc
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from src import configs
from src.errors import (
    GOES_ON,
    INTERRUPTED,
    InputError,
    NotApplicable,
    interrupted,
    masked,
    refused,
    replace_unprintable,
)
from src.jobs.identity import Named
from src.sweeps import job_status, overrides, sweep

if TYPE_CHECKING:
    import pandas as pd

    from src.jobs.plan import Planned
    from src.tracking import Run, Tracker

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Named)
P = TypeVar("P")

# Python looks for garbage after every 700 objects. Importing torch and MLflow, and composing, make millions
# that are none: that was a fifteenth of a sweep's time.
gc.set_threshold(20_000, 20, 20)


def _skip_last_collection() -> None:
    """Spare the exit a search of torch and MLflow for garbage, a second or two.

    Bindings made with nanobind, as Triton's, print every object that the last collection did not free: where
    torchvision has imported Triton, as all that trains or embeds does, Python looks through everything.
    """
    if "triton" not in sys.modules:
        gc.freeze()


atexit.register(_skip_last_collection)

# Signals that came to end this command.
_stopped: list[int] = []


@dataclass(frozen=True)
class Kind(Generic[J, P]):
    """What makes jobs of one entry.

    Attributes:
        named: the job of a composed config, of the YAMLs chosen of each group, and of its folder.
        plan: what it would do and cost.
        prepare: sees that what it needs is there and suffices, before any work is spent.
        sheet: contact sheet of morphs that it shows; None where it shows none.
        key: hash of all that decides its numbers; raises `artifacts.NotStored` where weights have to be
            made first.
        perform: does it within a run; its analyses.csv.
        params, tags: what is known of it before any work.
    """

    named: Callable[[DictConfig, Mapping[str, str], str], J]
    plan: Callable[[J], Planned]
    prepare: Callable[[J], P]
    sheet: Callable[[P], Path | None]
    key: Callable[[P], str]
    perform: Callable[[P, Run], pd.DataFrame]
    params: Callable[[J], Mapping[str, object]]
    tags: Callable[[J], Mapping[str, str]]


def perform(composed: DictConfig, kind: Kind[Any, Any]) -> None:
    """Make one job. Its failure is recorded and shown at the end, so that a sweep goes on."""
    hydra_config = HydraConfig.get()
    given = overrides.typed(hydra_config)
    typed = " ".join(given) or "the default job"
    columns, part, job = {}, None, None
    try:
        _heed()
        configs.check_dataset(hydra_config)
        job = kind.named(composed, dict(hydra_config.runtime.choices), hydra_config.runtime.output_dir)
        job = sweep.current.told_apart(job, given)
        columns = job.columns
        if job.cfg.plan:
            _plan(job, kind)
            return
        part = sweep.current.part(job)
        if sweep.current.sent is not None:
            sweep.current.sent.append(job)
            return
        outcome = _run(job, kind, part, typed)
    except Exception as error:
        _heed()
        if sweep.current.hopeless(error):
            log.error("%s", error)
            raise sweep.Stopped from None
        outcome = _failed(_understood(error, job) if job else error)
    sweep.current.ended(replace(outcome, asked=typed, columns=columns), part)


def _heed() -> None:
    """Stop, where that was asked for: a library may take an interrupt within a call for an error of its own.

    Raises:
        KeyboardInterrupt: a signal came.
    """
    if _stopped:
        raise KeyboardInterrupt


def _failed(error: Exception, run: str = "") -> job_status.Outcome:
    if isinstance(error, InputError):
        log.error("%s", error)
        return job_status.Outcome(job_status.FAILED, run, str(error))
    log.error("this is a fault of the program, not of its input", exc_info=error)
    return job_status.Outcome(job_status.FAILED, run, repr(error))


def _understood(error: Exception, job: Named) -> Exception:
    """What tracking could not write is no fault of the program."""
    if isinstance(error, InputError) or not (why := refused(error)):
        return error
    return InputError(f"tracking.uri={masked(job.cfg.tracking.uri)}: cannot be written ({why}). {GOES_ON}")


def _plan(job: J, kind: Kind[J, Any]) -> None:
    from src.jobs.plan import Planned

    try:
        planned = kind.plan(job)
    except NotApplicable as error:
        if not sweep.current.globbed:
            raise
        planned = Planned(job.label, f"not applicable: {error}")
    sweep.current.planned.append(planned)


def _run(job: J, kind: Kind[J, Any], part: job_status.Part, typed: str) -> job_status.Outcome:
    from src.storage import results

    failure: Exception | None = None
    try:
        prepared = kind.prepare(job)
        part.show_morphs(kind.sheet(prepared), None)
        found = _resume(job, partial(kind.key, prepared), part.tracker) if job.cfg.resume else None
        if found:
            run, analyses = found
            part.analyses.append(analyses)
            part.folders[job.config_hash] = job.output / results.FOLDER
            return job_status.Outcome(job_status.TAKEN_OVER, run)
    except NotApplicable as error:
        if sweep.current.globbed:
            log.warning("%s: not applicable: %s", job.label, error)
            return job_status.Outcome(job_status.NOT_APPLICABLE, reason=str(error))
        failure = error
    except Exception as error:  # raised again within the run, which records it
        _heed()
        failure = error
    tracked = part.tracker.job(job.dataset, job.label, part.parent)
    try:
        with part.tracker.recorded(tracked):
            try:
                tracked.log(params=kind.params(job), tags={**kind.tags(job), "overrides": typed})
                if failure:
                    raise failure
                part.show_morphs(kind.sheet(prepared), tracked)
                analyses = kind.perform(prepared, tracked)
            except Exception:
                _heed()
                raise
        if tracked.lost:
            raise InputError(
                f"{tracked.lost}: results are in {job.output / results.FOLDER}, not in the store. Once it "
                "answers, the same command does what is missing."
            )
    except Exception as error:
        return _failed(_understood(error, job), tracked.id)
    part.analyses.append(analyses)
    part.folders[job.config_hash] = job.output / results.FOLDER
    return job_status.Outcome(job_status.FINISHED, tracked.id)


def _resume(job: Named, key: Callable[[], str], tracker: Tracker) -> tuple[str, pd.DataFrame] | None:
    """Take over the results of a finished job of the same key, where there is one: its run and analyses."""
    from src.storage import cache, results
    from src.tracking import Unreachable

    try:
        with cache.dry():
            wanted = key()
    except cache.NotStored:
        return None
    try:
        for found in tracker.finished(job.dataset, wanted):
            try:
                results.take_over(job.output, partial(found.fetch, results.FOLDER), found.tag("results"))
            except OSError as error:
                log.warning("%s: results of run %s cannot be read (%s): not used", job.label, found.id, error)
                continue
            log.info("%s: finished already, in run %s", job.label, found.id)
            return found.id, results.read(job.output)
    except Unreachable as error:
        log.warning("%s: whether it is finished already cannot be asked: %s", job.label, error)
    return None


def _closed(status: str) -> bool:
    """End the sweep; whether a job or a report failed, or what was found could not be kept."""
    try:
        return sweep.current.close(status)
    except Exception as error:
        if not (why := refused(error)):
            raise
        log.error("the sweep's tables cannot be kept (%s). %s", why, GOES_ON)
        return True


def main(entry: Callable[[], object], module: str) -> int:
    """Run a command whose jobs are made by an entry of Hydra.

    Args:
        entry: decorated with `hydra.main`.
        module: its name on the command line.

    Returns:
        The exit status.
    """
    replace_unprintable()
    sweep.current = sweep.Sweep(module=module, command=overrides.as_typed(module, sys.argv[1:]))
    try:
        sys.argv[1:] = overrides.as_sweeps(overrides.models_first(overrides.without_secrets(sys.argv[1:])))
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    _stopped.clear()

    def stop(number: int, _: object) -> None:
        # A batch system's SIGTERM is a Ctrl-C that nobody typed.
        _stopped.append(number)
        raise KeyboardInterrupt

    heard = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell's job in the background ignores it
        heard.append(signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in heard}
    status, code = "FAILED", 1
    try:
        entry()
        status, code = "FINISHED", 0
    except sweep.Stopped:
        pass  # why was said
    except (KeyboardInterrupt, SystemExit) as stopping:
        if not interrupted(stopping):
            raise
        status, code = "KILLED", 128 + (_stopped or [signal.SIGINT])[0]
        print(INTERRUPTED, file=sys.stderr)
    finally:
        failed = _closed(status)
        for number, handler in before.items():
            signal.signal(number, handler)
    return code or int(failed)
