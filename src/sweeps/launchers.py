"""Launchers of a sweep: run its jobs here, in processes of this machine, or on a SLURM cluster.

python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)'
python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)' hydra/launcher=joblib
python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)' hydra/launcher=slurm hydra.launcher.partition=gpu
"""

from __future__ import annotations

import logging
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, configure_log, run_job
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from src.configs.launchers import PACKAGE
from src.errors import InputError
from src.sweeps import overrides

if TYPE_CHECKING:
    from src.sweeps.cli import Command
    from src.sweeps.job_status import SweepJob
    from src.sweeps.result_collector import ResultCollector
    from src.sweeps.sweep import ComposedJob, Sweep

log = logging.getLogger(__name__)


class Here(Launcher):
    """Run the jobs in this process, a model's together."""

    __module__ = PACKAGE
    context: HydraContext
    config: DictConfig
    command: Command

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives a launcher; see Hydra's `Launcher`."""
        self.context, self.config = hydra_context, config
        self.command = task_function  # type: ignore[assignment]
        self.validated = _keep_composed(hydra_context)
        self.composed: dict[int, DictConfig] = {}

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a sweep; see Hydra's `Launcher`."""
        if self.config.hydra.sweeper.get("max_batch_size") is not None:
            raise InputError(
                "hydra.sweeper.max_batch_size: a sweep is launched whole. Leave it out; "
                "hydra/launcher=slurm hydra.launcher.array_parallelism=N bounds how much runs at once."
            )
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        if not self.config.get("plan"):
            self.require()
        sweep = self.command.sweep(Path(self.config.hydra.sweep.dir), globbed=overrides.globbed(self.config))
        composed = self._composed(list(enumerate(job_overrides, initial_job_idx)))
        self.command.failed = sweep.run(composed, lambda entries: self.make(sweep, entries))
        return []

    def require(self) -> None:
        """Check that jobs can be run.

        Raises:
            InputError: they cannot.
        """

    def make(self, sweep: Sweep, entries: list[SweepJob]) -> None:
        """Run named jobs, and record each in its part of the sweep."""
        from src.sweeps.job_batch import grouped

        log.info("Launching %d jobs locally", len(entries))
        for entry in [entry for group in grouped(entries) for entry in group]:
            log.info("\t#%d : %s", entry.number, entry.typed)
            _ = run_job(
                hydra_context=self.context,
                task_function=lambda _, entry=entry: sweep.perform(entry),  # type: ignore[misc]
                config=self.composed.pop(entry.number),
                job_dir_key="hydra.sweep.dir",
                job_subdir_key="hydra.sweep.subdir",
            ).return_value
            configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)

    def _composed(self, jobs: list[tuple[int, Sequence[str]]]) -> Iterator[ComposedJob]:
        from src.sweeps.sweep import located

        for number, given in jobs:
            if not self.validated.get(tuple(given)):  # another sweeper need not validate
                self.context.config_loader.load_sweep_config(self.config, [*given])
            config = self.composed[number] = self.validated[tuple(given)].pop()
            yield number, given, *located(config, number)


def _keep_composed(context: HydraContext) -> dict[tuple[str, ...], list[DictConfig]]:
    """Keep the configs that the sweeper composes to validate its jobs, and throws away.

    Returns:
        Overrides of a job -> a config for each time that the sweep asks for it.
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


class Sending(Here):
    """Run the jobs in other processes, a batch of a model's jobs each."""

    def make(self, sweep: Sweep, entries: list[SweepJob]) -> None:
        """Send a batch for each model, and collect the results."""
        from src.sweeps import job_batch
        from src.sweeps.result_collector import ResultCollector

        groups = job_batch.grouped(entries)
        folder = job_batch.new_folder(Path(self.config.hydra.sweep.dir).absolute())
        paths = job_batch.write(folder, groups, sweep, job_batch.origin(self.config, self.command.module))
        collector = ResultCollector(folder, entries, sweep.parts)
        log.info("Sending %d jobs in %d batches, one per model: %s", len(entries), len(groups), folder)
        self.send(paths, [[entry.number for entry in group] for group in groups], collector)

    @abstractmethod
    def send(self, paths: list[Path], groups: list[list[int]], collector: ResultCollector) -> None:
        """Start a process per batch, and wait until all of them ended.

        Args:
            paths: batches.
            groups: numbers of the jobs of each.
            collector: collector of their results.
        """


class Joblib(Sending):
    """Run the jobs in processes of this machine."""

    __module__ = PACKAGE

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def send(self, paths: list[Path], groups: list[list[int]], collector: ResultCollector) -> None:
        """See `Sending`."""
        from src.sweeps import local

        local.send(paths, groups, collector, self.n_jobs)


class Slurm(Sending):
    """Run the jobs as an array of a SLURM cluster."""

    __module__ = PACKAGE

    def __init__(self, max_num_timeout: int, **parameters: Any) -> None:
        self.requeues = max_num_timeout
        plain = OmegaConf.to_container(OmegaConf.create(parameters), resolve=True)
        assert isinstance(plain, dict)
        self.parameters = {str(name): value for name, value in plain.items() if value is not None}

    def require(self) -> None:
        """See `Here`."""
        from src.sweeps import slurm

        slurm.require()

    def send(self, paths: list[Path], groups: list[list[int]], collector: ResultCollector) -> None:
        """See `Sending`."""
        from src.sweeps import slurm

        slurm.send(paths, groups, collector, self.requeues, self.parameters)


def register() -> None:
    """Make the launchers known to Hydra, which looks for their package by its name."""
    plugins, package = Plugins.instance(), ModuleType(PACKAGE)
    above, _, name = PACKAGE.partition(".")
    if above not in sys.modules:
        sys.modules[above] = ModuleType(above)
        sys.modules[above].__path__ = []  # a package, of nothing that lies anywhere
    sys.modules[PACKAGE] = package
    setattr(sys.modules[above], name, package)
    for launcher in (Here, Joblib, Slurm):
        setattr(package, launcher.__name__, launcher)
        plugins.register(launcher)
