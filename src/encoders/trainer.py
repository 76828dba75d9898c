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


def _silence_lightning() -> None:
    # Otherwise, Lightning's advice would hide the messages of the job.
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"lightning\..*")


# Called on import as well: processes of `ddp_spawn` import this module but do not make a trainer.
_silence_lightning()


def make_trainer(trainer: configs.TrainerConfig, **options: Any) -> lightning.Trainer:
    """Make Lightning's trainer, on one device by default; raise `InputError` if a device is unavailable."""
    _silence_lightning()  # again, as warning filters may have been reset since the import
    settings = {"devices": 1, **options}
    try:
        # Within a job of a batch system, Lightning would take the job's tasks for its own processes, requeue
        # the job, and fail if their numbers differ.
        settings |= {"plugins": [LightningEnvironment()], "enable_checkpointing": False}
        settings |= {"accelerator": trainer.accelerator, "logger": False, "enable_model_summary": False}
        return lightning.Trainer(**settings)
    except (MisconfigurationException, ValueError, TypeError) as error:
        requested = "" if settings["devices"] == 1 else f" trainer.devices={settings['devices']}"
        raise InputError(
            f"trainer.accelerator={trainer.accelerator}{requested}: {error} Choose trainer=auto or "
            + ("trainer=cpu, or fewer trainer.devices." if requested else "trainer=cpu.")
        ) from None


def count_devices(trainer: configs.TrainerConfig) -> int:
    """Count the devices that a config selects; each of them embeds in a separate process.

    Raises `InputError` if this machine has fewer, or if the config lists devices.
    """
    if not isinstance(trainer.devices, int) and trainer.devices != "auto":
        raise InputError(
            f"trainer.devices={trainer.devices}: expected a number of devices, or auto. Set it, and choose "
            "devices with CUDA_VISIBLE_DEVICES, as in CUDA_VISIBLE_DEVICES=1,3 and trainer.devices=2."
        )
    if trainer.devices == 1:
        return 1
    lightning_trainer = make_trainer(trainer, devices=trainer.devices)
    cores = os.cpu_count() or 1
    on_cpu = isinstance(lightning_trainer.accelerator, CPUAccelerator)
    if on_cpu and lightning_trainer.num_devices > cores:
        raise InputError(
            f"trainer.devices={trainer.devices}: expected at most {cores}, the number of cores. "
            "Choose fewer devices, or a GPU."
        )
    return lightning_trainer.num_devices
