"""Launchers of a sweep: its jobs, a model's together, in processes of this machine or of a SLURM cluster.

python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)' hydra/launcher=joblib
python -m src.run -m model=toy_s,toy_m 'exp=glob(*_to_*)' hydra/launcher=slurm hydra.launcher.partition=gpu
"""

from __future__ import annotations

import logging
import sys
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, configure_log, run_job
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from src.configs.launchers import PACKAGE, JoblibConf, ParcelConf, SlurmConf
from src.errors import InputError
from src.sweeps import job_batch, local, slurm, sweep
from src.sweeps.result_collector import Awaited

log = logging.getLogger(__name__)

# What of Hydra's own settings says how a sweep is made, and nothing of its jobs.
OF_THE_SWEEP = (
    *("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper"),
    *("hydra.sweep.dir", "hydra.mode"),
)


class _Own(Launcher):
    """What our launchers share."""

    context: HydraContext
    config: DictConfig
    function: TaskFunction

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """See Hydra's `Launcher`."""
        self.context, self.function, self.config = hydra_context, task_function, config

    def run(self, number: int, overrides: Sequence[str], *, logs: bool = True) -> JobReturn:
        """Do with a job in this process what the entry does with it."""
        config = self.context.config_loader.load_sweep_config(self.config, [*overrides])
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return run_job(
            hydra_context=self.context,
            task_function=self.function,
            config=config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
            configure_logging=logs,
        )


class _Sending(_Own):
    """A launcher whose jobs are made by other processes, a parcel each."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """See Hydra's `Launcher`. A plan is made here: it costs nothing."""
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        jobs = list(enumerate(job_overrides, initial_job_idx))
        if self.config.get("plan"):
            return [self.run(*job) for job in jobs]
        try:
            self.require()
        except InputError as error:  # Hydra shows a traceback of any other
            raise CompactHydraException(str(error)) from None
        returned, sent = self._named(jobs)
        if sent:
            self._send(sent)
        return returned

    @abstractmethod
    def require(self) -> None:
        """See that the processes can be started.

        Raises:
            InputError: they cannot.
        """

    @abstractmethod
    def send(self, entry: str, given: list[list[str]], groups: list[list[int]], to: Awaited) -> None:
        """Start a process per parcel, and wait for the answers.

        Args:
            entry: module that makes a parcel's jobs.
            given: arguments for each parcel.
            groups: numbers of the jobs of each.
            to: whom to tell.
        """

    def _named(self, jobs: list[tuple[int, Sequence[str]]]) -> tuple[list[JobReturn], list[job_batch.Sent]]:
        """Name every job and open the parent runs, as long as all are in one place."""
        returned, sent = [], []
        for number, overrides in jobs:
            sweep.current.sent = []
            returned.append(self.run(number, overrides, logs=False))
            sent += [job_batch.Sent(number, [*overrides], job) for job in sweep.current.sent]
        sweep.current.sent = None
        return returned, sent

    def _send(self, sent: list[job_batch.Sent]) -> None:
        groups = job_batch.grouped(sent)
        folder = job_batch.fresh(Path(self.config.hydra.sweep.dir).absolute())
        paths = job_batch.post(folder, groups, sweep.current)
        given = [self._arguments(path, group[0]) for path, group in zip(paths, groups, strict=True)]
        awaited = Awaited(folder, sent, sweep.current)
        log.info("Sending %d jobs in %d parcels, one per model: %s", len(sent), len(groups), folder)
        try:
            numbers = [[one.number for one in group] for group in groups]
            self.send(sweep.current.module, given, numbers, awaited)
        finally:
            awaited.close()

    def _arguments(self, path: Path, first: job_batch.Sent) -> list[str]:
        """The command that makes a parcel: that of the sweep, with the parcel's first job for a sweep."""
        hydra = self.config.hydra
        sources = {source.provider: source.path for source in hydra.runtime.config_sources}
        flags = [f"--config-name={hydra.job.config_name}", f"--config-path={sources['main']}"]
        flags += [f"--config-dir={sources['command-line']}"] if "command-line" in sources else []
        kept = [item for item in hydra.overrides.hydra if not item.lstrip("+~").startswith(OF_THE_SWEEP)]
        kept += ["hydra/launcher=parcel", f"hydra.launcher.path={_quoted(path)}", "hydra.sweeper.params=null"]
        kept += [f"hydra.sweep.dir={_quoted(path.parent.parent)}"]
        return ["-m", *flags, *kept, *first.overrides]


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class Parcel(_Own):
    """Makes the jobs of a parcel in this process."""

    __module__ = PACKAGE

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:  # noqa: ARG002
        """See Hydra's `Launcher`. What Hydra asks for is the parcel's first job, a stand-in for all."""
        parcel, place = job_batch.read(self.path), self.path.parent
        within = job_batch.Within(multirun=True, globbed=parcel.globbed, labels={*parcel.labels})
        within.parents, within.place = parcel.parents, place
        sweep.current = within
        for number, overrides in parcel.jobs:
            if job_batch.answer(place, number) is None:
                within.number = number
                log.info("#%d : %s", number, " ".join(overrides))
                self.run(number, overrides)
        return []


class Joblib(_Sending):
    """Processes of this machine."""

    __module__ = PACKAGE

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def require(self) -> None:
        """See `_Sending`: they always can."""

    def send(self, entry: str, given: list[list[str]], groups: list[list[int]], to: Awaited) -> None:
        """See `_Sending`."""
        local.send(entry, given, groups, to, self.n_jobs)


class Slurm(_Sending):
    """An array of a SLURM cluster."""

    __module__ = PACKAGE

    def __init__(self, max_num_timeout: int, **parameters: Any) -> None:
        self.requeues = max_num_timeout
        plain = OmegaConf.to_container(OmegaConf.create(parameters), resolve=True)
        assert isinstance(plain, dict)
        self.parameters = {str(name): value for name, value in plain.items() if value is not None}

    def require(self) -> None:
        """See `_Sending`."""
        slurm.require()

    def send(self, entry: str, given: list[list[str]], groups: list[list[int]], to: Awaited) -> None:
        """See `_Sending`."""
        slurm.send(entry, given, groups, to, self.requeues, self.parameters)


def register() -> None:
    """Make the launchers known to Hydra, which looks for their package by its name."""
    plugins, package = Plugins.instance(), ModuleType(PACKAGE)
    above, _, name = PACKAGE.partition(".")
    if above not in sys.modules:
        sys.modules[above] = ModuleType(above)
        sys.modules[above].__path__ = []  # a package, of nothing that lies anywhere
    sys.modules[PACKAGE] = package
    setattr(sys.modules[above], name, package)
    for launcher in (Parcel, Joblib, Slurm):
        setattr(package, launcher.__name__, launcher)
        plugins.register(launcher)
    for name, conf in {"parcel": ParcelConf, "joblib": JoblibConf, "slurm": SlurmConf}.items():
        ConfigStore.instance().store(group="hydra/launcher", name=name, node=conf)
