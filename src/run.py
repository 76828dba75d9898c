"""Entry: one job = one model x one dataset x one experiment.

python -m src.run model=toy_m exp=faces_to_words
python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'
"""

from __future__ import annotations

import logging
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig

from src import asked, configs, outcomes, sweep
from src.errors import INTERRUPTED, InputError, NotApplicable, interrupted

if TYPE_CHECKING:
    from src.jobs import Job

log = logging.getLogger(__name__)

configs.register()


@hydra.main(version_base="1.3", config_path=str(configs.CHECKOUT / "conf"), config_name="run")
def run(composed: DictConfig) -> None:
    """One job. Its failure is recorded and shown at the end, so that a sweep goes on."""
    from src.jobs import Job

    hydra_config = HydraConfig.get()
    overrides = " ".join(hydra_config.overrides.task) or "the default job"
    ended, columns, part = sweep.current.rejected, {}, None
    try:
        job = Job.of(composed, dict(hydra_config.runtime.choices), hydra_config.runtime.output_dir)
        job = sweep.current.told_apart(job, list(hydra_config.overrides.task))
        columns = job.columns
        if job.cfg.plan:
            _plan(job)
            return
        part = sweep.current.part(job)
        ended = part.outcomes
        outcome = _run(job, part, overrides)
    except Exception as error:
        outcome = _failed(error)
    ended.append(replace(outcome, asked=overrides, columns=columns))
    if part:
        outcomes.note(part)


def _failed(error: Exception, run: str = "") -> outcomes.Outcome:
    if isinstance(error, InputError):
        log.error("%s", error)
        return outcomes.Outcome(outcomes.FAILED, run, str(error))
    log.error("this is a fault of the program, not of its input", exc_info=error)
    return outcomes.Outcome(outcomes.FAILED, run, repr(error))


def _plan(job: Job) -> None:
    from src import plan

    try:
        planned = plan.plan(job)
    except NotApplicable as error:
        if not sweep.current.globbed:
            raise
        planned = plan.Planned(job.label, f"not applicable: {error}")
    sweep.current.planned.append(planned)


def _run(job: Job, part: outcomes.Part, overrides: str) -> outcomes.Outcome:
    from src import pipeline, results

    failure: Exception | None = None
    try:
        prepared = pipeline.prepare(job)
        part.show_morphs(pipeline.sheet(prepared), None)
        found = pipeline.resume(prepared, part.tracker) if job.cfg.resume else None
        if found:
            run, analyses = found
            part.analyses.append(analyses)
            part.folders[job.config_hash] = job.output / results.FOLDER
            return outcomes.Outcome(outcomes.TAKEN_OVER, run)
    except NotApplicable as error:
        if sweep.current.globbed:
            log.warning("%s: not applicable: %s", job.label, error)
            return outcomes.Outcome(outcomes.NOT_APPLICABLE, reason=str(error))
        failure = error
    except Exception as error:  # raised again within the run, which records it
        failure = error
    tracked = part.tracker.open(job.dataset, job.label, part.parent)
    try:
        with part.tracker.recorded(tracked):
            tracked.log(params=pipeline.params(job), tags={**pipeline.tags(job), "overrides": overrides})
            if failure:
                raise failure
            part.show_morphs(pipeline.sheet(prepared), tracked)
            part.analyses.append(pipeline.perform(prepared, tracked))
            part.folders[job.config_hash] = job.output / results.FOLDER
    except Exception as error:
        return _failed(error, tracked.id)
    return outcomes.Outcome(outcomes.FINISHED, tracked.id)


def as_sweeps(arguments: list[str]) -> list[str]:
    """Plain overrides beside a sweep over choices, as sweeps of one value.

    Hydra composes the default choices first, to find its own settings. There, a key that only the swept
    choices have would be refused.

    >>> as_sweeps(["-m", "model=clip_b32,clip_l14", "model.weights=random", "seed=1"])
    ['-m', 'model=clip_b32,clip_l14', 'model.weights=choice(random)', 'seed=1']
    """
    parser = OverridesParser.create()
    given = [text for text in arguments if "=" in text and not text.startswith("-")]
    try:
        parsed = dict(zip(given, parser.parse_overrides(given), strict=True))
    except HydraException:  # Hydra itself says what is wrong
        return arguments
    if not any(found.is_sweep_override() and "." not in str(found.key_or_group) for found in parsed.values()):
        return arguments

    def alone(text: str) -> str:
        found, (key, _, value) = parsed.get(text), text.partition("=")
        if found is None or found.is_sweep_override() or found.is_delete():
            return text
        if "." not in key or key.lstrip("+").startswith("hydra."):
            return text
        wrapped = f"{key}=choice({value})"
        try:  # choice() takes no null, and loses some quotes: then the plain override stays
            (swept,) = parser.parse_overrides([wrapped])
            (again,) = parser.parse_overrides([f"{key}={item}" for item in swept.sweep_string_iterator()])
        except (HydraException, ValueError):
            return text
        return wrapped if again.value() == found.value() else text

    return [alone(text) for text in arguments]


def main() -> int:
    """Run the command; returns its exit status."""
    sweep.current = sweep.Sweep(command=asked.as_typed(sys.argv[1:]))
    sys.argv[1:] = as_sweeps(sys.argv[1:])
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:
        # A batch system's SIGTERM is a Ctrl-C that nobody typed.
        stopped.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    status, code = "FAILED", 1
    try:
        run()
        status, code = "FINISHED", 0
    except (KeyboardInterrupt, SystemExit) as stopping:
        if not interrupted(stopping):
            raise
        status, code = "KILLED", 128 + (stopped or [signal.SIGINT])[0]
        print(INTERRUPTED, file=sys.stderr)
    finally:
        failed = sweep.current.close(status)
        signal.signal(signal.SIGTERM, before)
    return code or int(failed)


if __name__ == "__main__":
    sys.exit(main())
