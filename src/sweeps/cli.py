"""Run the commands that Hydra configures, and return their exit status."""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from src import configs
from src.configs.composition import YAML_ERRORS, describe_broken_yaml, describe_composition
from src.configs.launchers import LAUNCHERS
from src.errors import (
    RESUME_HINT,
    InputError,
    describe_access,
    interrupt_on_signals,
    is_interrupt,
    replace_unprintable,
    report_interrupt,
    write_refusal,
)
from src.sweeps import launchers, overrides
from src.tracking import tracking_server

if TYPE_CHECKING:
    from src.jobs.runner import Runner
    from src.sweeps.sweep import ComposedJob, Sweep

# Environment variable that makes Hydra raise its errors instead of printing them and exiting. Users set it to
# see the full traceback; `main` sets it to print errors itself.
FULL_ERROR = "HYDRA_FULL_ERROR"


@dataclass
class Command:
    """Command-line program configured by Hydra. Called as Hydra's task function, it runs a single job."""

    module: str  # module on the command line, such as `src.run`
    config_name: str  # name of its main YAML in `conf/`
    job_module: str  # module with the function `make_runner` of its jobs, which is slow to import
    command_line: str = ""  # command line of the user; empty before it runs
    sweep_started: bool = False  # whether composing the config is over: later errors have other causes
    failed: bool = False  # whether a job or a report failed

    def __call__(self, composed: DictConfig) -> None:
        """Run a single job, as a sweep of one job without a parent run."""
        hydra_config = HydraConfig.get()
        # The project's launchers run the jobs of a sweep themselves: only others call the task function.
        if hydra_config.mode == RunMode.MULTIRUN:
            raise InputError(
                f"hydra/launcher={hydra_config.runtime.choices['hydra/launcher']}: expected one of "
                f"{', '.join(LAUNCHERS)}, or a YAML built on one."
            )
        sweep = self.start_sweep(None, has_glob=False)
        composed_job: ComposedJob = 0, [], hydra_config, composed
        self.failed = sweep.run([composed_job], sweep.perform_all)

    def import_runner(self) -> Runner[Any, Any]:
        """Import and return the runner of the command's jobs."""
        with tracking_server.announce_waiting("PyTorch and the other libraries to load"):
            runner: Runner[Any, Any] = importlib.import_module(self.job_module).make_runner()
            return runner

    def start_sweep(self, folder: Path | None, *, has_glob: bool) -> Sweep:
        """Return the sweep of the command's jobs; `folder` is None for a single job.

        `has_glob`: see `src.jobs.runner.run`.
        """
        self.sweep_started = True
        runner = self.import_runner()
        from src.sweeps.sweep import Sweep

        return Sweep(runner, self.command_line, folder, has_glob)

    def main(self) -> int:
        """Run the command line; return its exit status."""
        replace_unprintable()
        _reduce_garbage_collection()
        configs.register()
        launchers.register()
        self.command_line = overrides.format_command(self.module, sys.argv[1:])
        self.sweep_started = self.failed = False
        wrapper = hydra.main(version_base="1.3", config_path=str(configs.CONF), config_name=self.config_name)
        shows_traceback = os.environ.get(FULL_ERROR) == "1"
        os.environ[FULL_ERROR] = "1"
        try:
            if self.config_name == "generate":
                overrides.refuse_perturbations(sys.argv[1:])
            sys.argv[1:] = overrides.to_sweeps(overrides.hide_secrets(sys.argv[1:]))
            with interrupt_on_signals():
                wrapper(self)()
        except (KeyboardInterrupt, SystemExit) as stop:
            if not is_interrupt(stop):
                raise
            return report_interrupt()
        except Exception as error:
            message = "" if shows_traceback else self._describe_error(error)
            if not message:
                raise
            print(message, file=sys.stderr)
            return 1
        finally:
            if not shows_traceback:
                del os.environ[FULL_ERROR]
        return int(self.failed)

    def _describe_error(self, error: Exception) -> str:
        """Return the message for the user; empty if the error is a bug in this program."""
        if not self.sweep_started and (message := overrides.describe_new_entry(error, sys.argv[1:])):
            return message
        if isinstance(error, InputError | HydraException | OmegaConfBaseException):
            cause = error.__cause__
            return f"{error}\n{cause}" if isinstance(cause, OmegaConfBaseException) else str(error)
        if self.sweep_started:
            why = write_refusal(error)
            return f"A file cannot be written ({why}). {RESUME_HINT}" if why else describe_access(error)
        if isinstance(error, YAML_ERRORS) and (
            message := describe_broken_yaml(error, _list_config_folders())
        ):
            return message
        if message := describe_composition(error):
            return message
        if isinstance(error, OSError):
            option = "hydra.sweep.dir" if {"-m", "--multirun"} & {*sys.argv} else "hydra.run.dir"
            return (
                f"{error.filename or 'the folder of the command'}: cannot be written ({error.strerror}). "
                f"Free disk space, or set {option} to a writable folder."
            )
        return ""


def _reduce_garbage_collection() -> None:
    """Collect garbage less often, and not at exit.

    Importing torch and MLflow and composing configs create millions of objects. On 24 jobs with stored
    vectors, this reduces the processor time from 16 s to 13 s. If torchvision has imported Triton, garbage
    is collected at exit, as Triton's bindings print every object that was not freed.
    """
    gc.set_threshold(20_000, 20, 20)
    atexit.register(lambda: None if "triton" in sys.modules else gc.freeze())


def _list_config_folders() -> list[Path]:
    """Return the config folders: `conf/`, --config-dir, and those of hydra.searchpath."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd")
    config_dir = parser.parse_known_args()[0].config_dir
    search_path = re.findall(r"file://([^\s,'\"\]]+)", " ".join(sys.argv[1:]))
    return [configs.CONF, *map(Path, [config_dir] if config_dir else []), *map(Path, search_path)]
