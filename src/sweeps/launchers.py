"""Launch the jobs of a sweep in this process, in others of this machine, or on a SLURM cluster.

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

# Seconds between polls of a process; and until a stopped process, which first ends its runs, is killed.
POLL, STOP = 0.5, 60


class Here(Launcher):
    """Launcher that runs the jobs in this process, grouped by model."""

    __module__ = PACKAGE
    context: HydraContext
    config: DictConfig
    command: Command

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Set up the launcher; see Hydra's `Launcher`."""
        self.context, self.config = hydra_context, config
        self.command = task_function  # type: ignore[assignment]
        self.validated = _save_composed(hydra_context)
        self.composed: dict[int, DictConfig] = {}

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a sweep; see Hydra's `Launcher`."""
        if self.config.hydra.sweeper.get("max_batch_size") is not None:
            raise InputError(
                "hydra.sweeper.max_batch_size: a sweep cannot be split. Leave it out; "
                "hydra/launcher=slurm hydra.launcher.array_parallelism=N limits concurrent jobs."
            )
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        if not self.config.get("plan"):
            self.require()
        sweep = self.command.sweep(Path(self.config.hydra.sweep.dir), globbed=overrides.globbed(self.config))
        composed = self._composed(list(enumerate(job_overrides, initial_job_idx)))
        self.command.failed = sweep.run(composed, lambda entries: self.run_jobs(sweep, entries))
        return []

    def require(self) -> None:
        """Raise `InputError` if this launcher cannot run jobs here."""

    def run_jobs(self, sweep: Sweep, entries: list[SweepJob]) -> None:
        """Run jobs, and record each with the recorder of its dataset."""
        from src.sweeps.job_batch import grouped
        from src.sweeps.sweep import run_in_folder

        log.info("Launching %d jobs locally", len(entries))
        for entry in [entry for group in grouped(entries) for entry in group]:
            log.info("\t#%d : %s", entry.number, entry.typed)
            config = self.composed.pop(entry.number)
            run_in_folder(self.context, config, lambda _, entry=entry: sweep.perform(entry))  # type: ignore[misc]
            configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)

    def _composed(self, jobs: list[tuple[int, Sequence[str]]]) -> Iterator[ComposedJob]:
        from src.sweeps.sweep import located

        for number, given in jobs:
            if not self.validated.get(tuple(given)):  # other sweepers may not validate
                self.context.config_loader.load_sweep_config(self.config, [*given])
            config = self.composed[number] = self.validated[tuple(given)].pop()
            yield number, given, *located(config, number)


def _save_composed(context: HydraContext) -> dict[tuple[str, ...], list[DictConfig]]:
    """Save the configs that the sweeper composes to validate its jobs, and would discard.

    Returns overrides -> configs, one for each job of the sweep that has these overrides.
    """
    loader = context.config_loader
    compose = loader.load_sweep_config
    composed: dict[tuple[str, ...], list[DictConfig]] = {}

    def load_sweep_config(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        config = compose(master_config, sweep_overrides)
        composed.setdefault(tuple(sweep_overrides), []).append(config)
        return config

    loader.load_sweep_config = load_sweep_config  # type: ignore[method-assign]
    return composed


class BatchLauncher(Here):
    """Launcher that runs the jobs in other processes, a batch per model."""

    def run_jobs(self, sweep: Sweep, entries: list[SweepJob]) -> None:
        """Send a batch per model, and collect the results."""
        from src.sweeps import job_batch
        from src.sweeps.job_batch import ResultCollector

        groups = job_batch.grouped(entries)
        folder = job_batch.new_folder(Path(self.config.hydra.sweep.dir).absolute())
        paths = job_batch.write(folder, groups, sweep, job_batch.origin(self.config, self.command.module))
        collector = ResultCollector(folder, entries, sweep.recorders)
        log.info("Sending %d jobs in %d batches, one per model: %s", len(entries), len(groups), folder)
        self.send(paths, [[entry.number for entry in group] for group in groups], collector)

    @abstractmethod
    def send(self, paths: list[Path], groups: list[list[int]], collector: ResultCollector) -> None:
        """Start a process per batch, with its file and the numbers of its jobs; wait for all of them."""


class Joblib(BatchLauncher):
    """Launcher that runs the jobs in processes of this machine."""

    __module__ = PACKAGE

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def send(self, paths: list[Path], groups: list[list[int]], collector: ResultCollector) -> None:
        """Start a process of this machine per batch; see `BatchLauncher`.

        Joblib distributes the batches. A process that ends leaves no model in memory, and one that is killed
        for lack of memory does not affect the others. At most `n_jobs` run at once; -1: one per core.
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
                # In a new session, so that Ctrl-C reaches only the waiting process, which stops the others.
                process = subprocess.Popen(
                    [sys.executable, "-m", "src.sweeps.worker", str(path)],
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
                processes.append(process)
            while process.poll() is None:
                time.sleep(POLL)
                collector.collect()
            if not stopping:
                lines = log_path.read_text(errors="replace").strip().splitlines() or ["no output"]
                reason = (
                    f"its process ended with status {process.returncode}: {lines[-1].strip()} ({log_path})"
                )
                collector.lose(numbers, reason)

        parallel = joblib.Parallel(n_jobs=n_jobs, backend="threading")
        try:
            parallel(joblib.delayed(run)(*pair) for pair in zip(paths, groups, strict=True))
        except BaseException:
            stopping = True
            for process in processes:
                process.terminate()
            for process in processes:
                try:
                    process.wait(STOP)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            collector.stop("the sweep was interrupted")
            raise


class Slurm(BatchLauncher):
    """Launcher that runs the jobs as an array of a SLURM cluster."""

    __module__ = PACKAGE

    def __init__(self, max_num_timeout: int, **parameters: Any) -> None:
        self.requeues = max_num_timeout
        plain_parameters = OmegaConf.to_container(OmegaConf.create(parameters), resolve=True)
        assert isinstance(plain_parameters, dict)
        self.parameters = {str(name): value for name, value in plain_parameters.items() if value is not None}

    def require(self) -> None:
        """Check that this machine can submit to a cluster; see `Here`."""
        from src.sweeps import slurm

        slurm.require()

    def send(self, paths: list[Path], groups: list[list[int]], collector: ResultCollector) -> None:
        """Submit an array with a task per batch; see `BatchLauncher`."""
        from src.sweeps import slurm

        slurm.send(paths, groups, collector, self.requeues, self.parameters)


def register() -> None:
    """Register the launchers with Hydra, which searches for their package by name."""
    plugins, package = Plugins.instance(), ModuleType(PACKAGE)
    parent_name, _, name = PACKAGE.partition(".")
    if parent_name not in sys.modules:
        sys.modules[parent_name] = ModuleType(parent_name)
        sys.modules[parent_name].__path__ = []  # an empty package without files
    sys.modules[PACKAGE] = package
    setattr(sys.modules[parent_name], name, package)
    for launcher in (Here, Joblib, Slurm):
        setattr(package, launcher.__name__, launcher)
        plugins.register(launcher)
