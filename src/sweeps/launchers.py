"""Launch the jobs of a sweep in this process, in local worker processes, or on a SLURM cluster.

python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)'
python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)' hydra/launcher=joblib
python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)' hydra/launcher=slurm hydra.launcher.partition=gpu
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, configure_log
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from src.configs.launchers import PACKAGE
from src.errors import InputError
from src.sweeps import overrides

if TYPE_CHECKING:
    from src.sweeps.cli import Command
    from src.sweeps.job_batch import ResultCollector
    from src.sweeps.job_status import SweepJob
    from src.sweeps.sweep import ComposedJob, Sweep

log = logging.getLogger(__name__)

# Time between polls of a worker process.
POLL_SECONDS = 0.5
# Grace period in which a terminated process closes its MLflow runs before it is killed.
GRACE_SECONDS = 60


class LocalLauncher(Launcher):
    """Launcher that runs the jobs in this process, grouped by model."""

    __module__ = PACKAGE
    context: HydraContext
    config: DictConfig
    command: Command

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Set up the launcher; see Hydra's `Launcher`."""
        self.context, self.config = hydra_context, config
        self.command = task_function  # type: ignore[assignment]
        self.configs_by_overrides = _record_composed_configs(hydra_context)
        self.config_by_number: dict[int, DictConfig] = {}

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a sweep; see Hydra's `Launcher`."""
        if self.config.hydra.sweeper.get("max_batch_size") is not None:
            raise InputError(
                "hydra.sweeper.max_batch_size: a sweep cannot be split. Leave it out; "
                "hydra/launcher=slurm hydra.launcher.array_parallelism=N limits concurrent jobs."
            )
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        if not self.config.get("plan"):
            self.check_available()
        sweep = self.command.start_sweep(
            Path(self.config.hydra.sweep.dir), has_glob=overrides.selects_by_glob(self.config)
        )
        composed = self._compose_jobs(list(enumerate(job_overrides, initial_job_idx)))
        self.command.failed = sweep.run(composed, lambda sweep_jobs: self.run_jobs(sweep, sweep_jobs))
        return []

    def check_available(self) -> None:
        """Raise `InputError` if this launcher cannot run jobs on this machine."""

    def run_jobs(self, sweep: Sweep, sweep_jobs: list[SweepJob]) -> None:
        """Run jobs, and record each with the recorder of its dataset."""
        from src.sweeps.job_batch import group_by_model
        from src.sweeps.sweep import run_in_folder

        log.info("Launching %d jobs locally", len(sweep_jobs))
        for sweep_job in [sweep_job for group in group_by_model(sweep_jobs) for sweep_job in group]:
            log.info("\t#%d : %s", sweep_job.number, sweep_job.user_overrides)
            config = self.config_by_number.pop(sweep_job.number)
            run_in_folder(self.context, config, lambda _, sweep_job=sweep_job: sweep.perform(sweep_job))  # type: ignore[misc]
            configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)

    def _compose_jobs(self, jobs: list[tuple[int, Sequence[str]]]) -> Iterator[ComposedJob]:
        """Yield the composed config of each job, given by number and overrides."""
        from src.sweeps.sweep import locate_job

        for number, job_overrides in jobs:
            key = tuple(job_overrides)
            if not self.configs_by_overrides.get(key):  # a sweeper other than Hydra's need not compose it
                self.context.config_loader.load_sweep_config(self.config, [*job_overrides])
            config = self.config_by_number[number] = self.configs_by_overrides[key].pop()
            yield number, job_overrides, *locate_job(config, number)


def _record_composed_configs(context: HydraContext) -> dict[tuple[str, ...], list[DictConfig]]:
    """Make the loader record the configs that Hydra's sweeper composes to validate its jobs and discards.

    Returns overrides -> list of configs, with an entry per job of the sweep that has these overrides.
    """
    loader = context.config_loader
    compose = loader.load_sweep_config
    configs_by_overrides: dict[tuple[str, ...], list[DictConfig]] = {}

    def load_sweep_config(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        config = compose(master_config, sweep_overrides)
        configs_by_overrides.setdefault(tuple(sweep_overrides), []).append(config)
        return config

    loader.load_sweep_config = load_sweep_config  # type: ignore[method-assign]
    return configs_by_overrides


class BatchLauncher(LocalLauncher):
    """Launcher that runs the jobs in worker processes, in one batch per model."""

    def run_jobs(self, sweep: Sweep, sweep_jobs: list[SweepJob]) -> None:
        """Run one batch per model, and collect the results."""
        from src.sweeps import job_batch
        from src.sweeps.job_batch import ResultCollector

        groups = job_batch.group_by_model(sweep_jobs)
        folder = job_batch.make_folder(Path(self.config.hydra.sweep.dir).absolute())
        origin = job_batch.build_origin(self.config, self.command.module)
        paths = job_batch.write(folder, groups, sweep, origin)
        collector = ResultCollector(folder, sweep_jobs, sweep.recorders)
        log.info("Sending %d jobs in %d batches, one per model: %s", len(sweep_jobs), len(groups), folder)
        self.run_batches(paths, [[sweep_job.number for sweep_job in group] for group in groups], collector)

    @abstractmethod
    def run_batches(
        self, paths: list[Path], job_numbers: list[list[int]], collector: ResultCollector
    ) -> None:
        """Start a process for each batch, and wait for all of them.

        Args:
            paths: file of each batch.
            job_numbers: numbers of the jobs of each batch.
            collector: collector of the results.
        """


class Joblib(BatchLauncher):
    """Launcher that runs the jobs in worker processes on this machine."""

    __module__ = PACKAGE

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def run_batches(
        self, paths: list[Path], job_numbers: list[list[int]], collector: ResultCollector
    ) -> None:
        """Start a worker on this machine for each batch, at most `n_jobs` (-1: one per core) at once.

        Joblib distributes the batches. Each worker is a separate process, so its model is freed when it ends,
        and running out of memory affects only its own batch.
        """
        import joblib

        n_jobs = min(joblib.effective_n_jobs(self.n_jobs), len(paths))
        threads = str(max(1, joblib.cpu_count() // n_jobs))
        environment = {"OMP_NUM_THREADS": threads, **os.environ, "PYTHONUNBUFFERED": "1"}
        processes: list[subprocess.Popen[bytes]] = []
        stopping = False

        def run(path: Path, numbers: list[int]) -> None:
            if stopping:
                return
            log_path = path.with_suffix(".log")
            with log_path.open("ab") as stream:
                # In a new session, so that Ctrl-C reaches only this process, which then stops the others.
                process = subprocess.Popen(
                    [sys.executable, "-m", "src.sweeps.worker", str(path)],
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
                processes.append(process)
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
                collector.collect()
            if not stopping:
                lines = log_path.read_text(errors="replace").strip().splitlines() or ["no output"]
                reason = (
                    f"its process ended with status {process.returncode}: {lines[-1].strip()} ({log_path})"
                )
                collector.mark_failed(numbers, reason)

        parallel = joblib.Parallel(n_jobs=n_jobs, backend="threading")
        try:
            parallel(joblib.delayed(run)(*pair) for pair in zip(paths, job_numbers, strict=True))
        except BaseException:
            stopping = True
            for process in processes:
                process.terminate()
            for process in processes:
                try:
                    process.wait(GRACE_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            collector.stop("the sweep was interrupted")
            raise


class Slurm(BatchLauncher):
    """Launcher that runs the jobs as an array on a SLURM cluster."""

    __module__ = PACKAGE

    def __init__(self, max_num_timeout: int, **parameters: Any) -> None:
        self.max_requeues = max_num_timeout
        plain_parameters = OmegaConf.to_container(OmegaConf.create(parameters), resolve=True)
        assert isinstance(plain_parameters, dict)
        self.parameters = {str(name): value for name, value in plain_parameters.items() if value is not None}

    def check_available(self) -> None:
        """Raise `InputError` if this machine cannot submit jobs to a cluster."""
        from src.sweeps import slurm

        slurm.check_available()

    def run_batches(
        self, paths: list[Path], job_numbers: list[list[int]], collector: ResultCollector
    ) -> None:
        """Submit an array with one task per batch, and wait for it; see `BatchLauncher`."""
        from src.sweeps import slurm

        slurm.submit_and_wait(paths, job_numbers, collector, self.max_requeues, self.parameters)


def register() -> None:
    """Register the launchers with Hydra, which searches for their package by name."""
    plugins, package = Plugins.instance(), ModuleType(PACKAGE)
    parent_name, _, name = PACKAGE.partition(".")
    if parent_name not in sys.modules:
        sys.modules[parent_name] = ModuleType(parent_name)
        sys.modules[parent_name].__path__ = []  # an empty package without files
    sys.modules[PACKAGE] = package
    setattr(sys.modules[parent_name], name, package)
    for launcher in (LocalLauncher, Joblib, Slurm):
        setattr(package, launcher.__name__, launcher)
        plugins.register(launcher)
