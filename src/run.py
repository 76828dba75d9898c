"""Entry: one job = one model x one dataset x one experiment.

python -m src.run model=toy_m exp=faces_to_words
python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from src import configs, sweep
from src.errors import InputError, NotApplicable

if TYPE_CHECKING:
    from src.jobs import Job

log = logging.getLogger(__name__)

configs.register()


@hydra.main(version_base="1.3", config_path=str(configs.CHECKOUT / "conf"), config_name="run")
def run(composed: DictConfig) -> None:
    """One job. Its failure is recorded and shown at the end, so that a sweep goes on."""
    from src.jobs import Job

    hydra_config = HydraConfig.get()
    asked = " ".join(hydra_config.overrides.task) or "the default job"
    failed = sweep.current.rejected
    try:
        job = Job.of(composed, dict(hydra_config.runtime.choices), hydra_config.runtime.output_dir)
        job = sweep.current.told_apart(job, list(hydra_config.overrides.task))
        part = sweep.current.part(job)
        failed = part.failed
        _run(job, part, asked)
    except InputError as error:
        log.error("%s", error)
        failed[asked] = str(error)
    except Exception as error:
        log.exception("this is a fault of the program, not of its input")
        failed[asked] = repr(error)


def _run(job: Job, part: sweep.Part, asked: str) -> None:
    from src import pipeline

    failure: Exception | None = None
    try:
        prepared = pipeline.prepare(job)
    except NotApplicable as error:
        if sweep.current.globbed:
            log.warning("%s: not applicable: %s", job.label, error)
            part.not_applicable[asked] = str(error)
            return
        failure = error
    except Exception as error:  # raised again within the run, which records it
        failure = error
    with part.tracker.run(job.dataset, job.label, part.parent) as tracked:
        tracked.log(params=pipeline.params(job), tags=pipeline.tags(job))
        if failure:
            raise failure
        part.analyses.append(pipeline.perform(prepared, tracked))


def main() -> int:
    """Run the command; returns its exit status."""
    _quiet()
    sweep.current = sweep.Sweep()
    status, code = "FAILED", 1
    try:
        run()
        status, code = "FINISHED", 0
    except (KeyboardInterrupt, SystemExit) as stop:
        # Lightning answers Ctrl-C with an exit of its own.
        if not isinstance(stop, KeyboardInterrupt) and not isinstance(stop.__context__, KeyboardInterrupt):
            raise
        status, code = "KILLED", 130
        print("Interrupted: what is finished is kept.", file=sys.stderr)
    finally:
        failed = sweep.current.close(status)
    return code or int(failed)


def _quiet() -> None:
    # Nothing phones home, and libraries' own advice does not bury the run's messages.
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY"):
        os.environ.setdefault(name, "1")
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"lightning\..*")


if __name__ == "__main__":
    sys.exit(main())
