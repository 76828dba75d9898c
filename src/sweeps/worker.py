"""Run a batch of jobs in a worker process."""

import argparse
import importlib
import logging
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.experimental.callback import Callback
from hydra.types import HydraContext
from omegaconf import DictConfig

from src import configs
from src.errors import InputError, interrupt_on_signals, is_interrupt, replace_unprintable, report_interrupt
from src.jobs.runner import Outcome, Recorder, Runner, log_failure, run
from src.sweeps import job_batch, overrides
from src.sweeps.job_batch import Batch
from src.sweeps.sweep import build_job, locate_job, run_in_folder
from src.tracking import Run, Tracker

log = logging.getLogger(__name__)


def run_batch(path: Path) -> int:
    """Run the jobs of a batch that have no outcome yet; return the exit status."""
    replace_unprintable()
    batch = job_batch.read(path)
    recorders: dict[str, Recorder] = {}
    try:
        configs.register()
        with interrupt_on_signals():
            runner = importlib.import_module(batch.module).COMMAND.import_runner()
            with initialize_config_dir(batch.config_dir, version_base="1.3"):
                for batch_job in batch.jobs:
                    folder, number = path.parent, batch_job[0]
                    if job_batch.read_outcome(folder, number) is None:
                        job_batch.write_outcome(folder, number, _run_job(runner, batch, batch_job, recorders))
    except (KeyboardInterrupt, SystemExit) as stop:
        if not is_interrupt(stop):
            raise
        return report_interrupt()
    finally:
        for recorder in recorders.values():
            with suppress(InputError):  # if the store is still unreachable
                recorder.tracker.end_lost_runs()
    return 0


def _run_job(
    runner: Runner[Any, Any],
    batch: Batch,
    batch_job: tuple[int, list[str], str],
    recorders: dict[str, Recorder],
) -> Outcome:
    """Run one job of a batch, given by number, overrides and model name; add its dataset's recorder."""
    number, job_overrides, model = batch_job
    config = compose(batch.config_name, [*batch.overrides, *job_overrides], return_hydra_config=True)
    hydra_config, job_config = locate_job(config, number)
    outcomes: list[Outcome] = []

    def task(_: DictConfig) -> None:
        try:
            job = replace(build_job(runner, hydra_config, job_config), model=model)
            if job.dataset not in recorders:
                tracker = Tracker(job.cfg.tracking.uri)
                parent = Run(batch.parents[job.dataset], tracker)
                recorders[job.dataset] = Recorder(tracker, parent, batch.command)
        except Exception as error:
            outcomes.append(log_failure(error))
            return
        user_overrides = " ".join(overrides.select_user_overrides(hydra_config)) or "the default job"
        outcomes.append(run(job, runner, recorders[job.dataset], user_overrides, has_glob=batch.has_glob)[0])

    loader: ConfigLoader = GlobalHydra.instance().config_loader()
    context = HydraContext(config_loader=loader, callbacks=Callback())  # type: ignore[arg-type]
    run_in_folder(context, config, task)
    return outcomes[0]


def main() -> int:
    """Run the batch given on the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m src.sweeps.worker", description=__doc__)
    parser.add_argument("batch", type=Path, help="N.json in the folder batches/ of a sweep")
    path = parser.parse_args().batch
    if not path.is_file():
        parser.error(f"{path}: no such file. Use batches/N.json of a sweep.")
    return run_batch(path)


if __name__ == "__main__":
    sys.exit(main())
