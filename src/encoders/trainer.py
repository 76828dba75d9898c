"""Configure Lightning's trainer: no logging, no files, this machine only."""

import logging
import os
import warnings
from typing import Any

import lightning
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.accelerators import CPUAccelerator

from src import configs
from src.errors import InputError


def _silence() -> None:
    # Lightning's advice would drown the messages of the run.
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"lightning\..*")


# Called on import as well: processes of `ddp_spawn` import this module but do not make a trainer.
_silence()


def make_trainer(trainer: configs.TrainerConfig, **options: Any) -> lightning.Trainer:
    """Return Lightning's trainer on one device unless `options` differ; raise `InputError` if unavailable."""
    _silence()  # again, as warning filters may have been reset since the import
    settings = {"devices": 1, **options}
    try:
        # Within a job of a batch system, Lightning would treat its tasks as its processes, requeue the job,
        # and fail if their numbers differ.
        settings |= {"plugins": [LightningEnvironment()], "enable_checkpointing": False}
        settings |= {"accelerator": trainer.accelerator, "logger": False, "enable_model_summary": False}
        return lightning.Trainer(**settings)
    except (MisconfigurationException, ValueError, TypeError) as error:
        wanted = "" if settings["devices"] == 1 else f" trainer.devices={settings['devices']}"
        raise InputError(
            f"trainer.accelerator={trainer.accelerator}{wanted}: {error} Choose trainer=auto or trainer=cpu"
            + (", or fewer trainer.devices." if wanted else ".")
        ) from None


def devices(trainer: configs.TrainerConfig) -> int:
    """Return the number of devices of a config, each of which embeds in a separate process.

    Raise `InputError` if this machine has fewer.
    """
    if trainer.devices == 1:
        return 1
    candidate = make_trainer(trainer, devices=trainer.devices)
    cores = os.cpu_count() or 1
    if isinstance(candidate.accelerator, CPUAccelerator) and candidate.num_devices > cores:
        raise InputError(
            f"trainer.devices={trainer.devices}: expected at most {cores}, the number of cores. "
            "Choose fewer devices, or a GPU."
        )
    return candidate.num_devices
