"""Command line of the Hydra entries: run a command, and report how it ended."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import sys
from collections.abc import Callable
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
from src.configs.broken_yaml import ERRORS, broken_yaml
from src.configs.launchers import LAUNCHERS
from src.errors import (
    GOES_ON,
    InputError,
    interrupted,
    interrupted_status,
    refused,
    replace_unprintable,
    stoppable,
)
from src.sweeps import launchers, overrides
from src.tracking import waiting

if TYPE_CHECKING:
    from src.jobs.runner import Runner
    from src.sweeps.sweep import Sweep

# Makes Hydra raise its errors, which it else prints with a traceback.
FULL_ERROR = "HYDRA_FULL_ERROR"


@dataclass
class Command:
    """A command of a Hydra entry, and the task function that Hydra calls for a single job.

    Attributes:
        module: its name on the command line.
        config_name: its config.
        load_runner: imports the runner of its jobs.
        typed: the command as typed; empty before it runs.
        began: whether its jobs were composed, so that any other error is a fault of the program.
        failed: whether a job or a report failed.
    """

    module: str
    config_name: str
    load_runner: Callable[[], Runner[Any, Any]]
    typed: str = ""
    began: bool = False
    failed: bool = False

    def __call__(self, composed: DictConfig) -> None:
        """Run a single job: a sweep of one, without a parent run."""
        hydra_config = HydraConfig.get()
        if hydra_config.mode == RunMode.MULTIRUN:
            raise InputError(
                f"hydra/launcher={hydra_config.runtime.choices['hydra/launcher']}: expected one of "
                f"{', '.join(LAUNCHERS)}, or a YAML built on one."
            )
        sweep = self.sweep(None, globbed=False)
        self.failed = sweep.run([(0, [], hydra_config, composed)], sweep.perform_all)

    def runner(self) -> Runner[Any, Any]:
        """Import the runner of the command's jobs."""
        with waiting.announced("PyTorch and the other libraries to load"):
            return self.load_runner()

    def sweep(self, folder: Path | None, *, globbed: bool) -> Sweep:
        """Begin the sweep of the command's jobs.

        Args:
            folder: output folder; None for a single job.
            globbed: whether a glob named its experiments or protocols.
        """
        self.began = True
        runner = self.runner()
        from src.sweeps.sweep import Sweep

        return Sweep(runner, self.typed, folder, globbed)

    def main(self) -> int:
        """Run the command line; return its exit status."""
        replace_unprintable()
        _collect_less_garbage()
        configs.register()
        launchers.register()
        self.typed, self.began, self.failed = overrides.as_typed(self.module, sys.argv[1:]), False, False
        entry = hydra.main(version_base="1.3", config_path=str(configs.CONF), config_name=self.config_name)
        traceback_wanted = os.environ.get(FULL_ERROR) == "1"
        os.environ[FULL_ERROR] = "1"
        try:
            sys.argv[1:] = overrides.as_sweeps(overrides.without_secrets(sys.argv[1:]))
            with stoppable():
                entry(self)()
        except (KeyboardInterrupt, SystemExit) as stop:
            if not interrupted(stop):
                raise
            return interrupted_status()
        except Exception as error:
            message = "" if traceback_wanted else self._message(error)
            if not message:
                raise
            print(message, file=sys.stderr)
            return 1
        finally:
            if not traceback_wanted:
                del os.environ[FULL_ERROR]
        return int(self.failed)

    def _message(self, error: Exception) -> str:
        """Return what a user is told of an error; empty if it is a fault of the program."""
        if isinstance(error, InputError | HydraException | OmegaConfBaseException):
            cause = error.__cause__
            return f"{error}\n{cause}" if isinstance(cause, OmegaConfBaseException) else str(error)
        if self.began:
            why = refused(error)
            return f"A file cannot be written ({why}). {GOES_ON}" if why else ""
        if isinstance(error, ERRORS) and (message := broken_yaml(error, _config_folders())):
            return message
        if isinstance(error, OSError):
            option = "hydra.sweep.dir" if {"-m", "--multirun"} & {*sys.argv} else "hydra.run.dir"
            return (
                f"{error.filename or 'the folder of the command'}: cannot be written ({error.strerror}). "
                f"Make room, or set {option} to a folder that can."
            )
        return ""


def _collect_less_garbage() -> None:
    """Have Python look for garbage less often, and not at the exit.

    Importing torch and MLflow, and composing, make millions of objects that are no garbage. Measured on 24
    jobs on stored vectors: 13 s of processor time with this, 16 without. Where torchvision has imported
    Triton the exit looks through everything, for its bindings print every object that was not freed.
    """
    gc.set_threshold(20_000, 20, 20)
    atexit.register(lambda: None if "triton" in sys.modules else gc.freeze())


def _config_folders() -> list[Path]:
    """Return the config folders of the command line: this program's, and those of the user."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd")
    given = parser.parse_known_args()[0].config_dir
    searched = re.findall(r"file://([^\s,'\"\]]+)", " ".join(sys.argv[1:]))
    return [configs.CONF, *map(Path, [given] if given else []), *map(Path, searched)]
