"""Lightning's trainer as the project uses it: nothing logged, nothing written, this machine alone."""

from __future__ import annotations

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
    # Lightning's advice would bury the run's own messages.
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"lightning\..*")


# In processes of `ddp_spawn`, too, which make no trainer of their own.
_silence()


def engine(trainer: configs.TrainerConfig, **options: Any) -> lightning.Trainer:
    """Lightning's trainer for a config, on one device unless `options` say otherwise.

    Args:
        trainer: where to compute.
        options: more of `lightning.Trainer`'s.

    Raises:
        InputError: this machine cannot compute there.
    """
    _silence()
    told = {"devices": 1, **options}
    try:
        return lightning.Trainer(
            accelerator=trainer.accelerator,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            # Within a job of a batch system Lightning would take its tasks for processes of its own, requeue
            # it, and refuse where their numbers differ.
            plugins=[LightningEnvironment()],
            **told,
        )
    except (MisconfigurationException, ValueError, TypeError) as error:
        wanted = "" if told["devices"] == 1 else f" trainer.devices={told['devices']}"
        raise InputError(
            f"trainer.accelerator={trainer.accelerator}{wanted}: {error} Choose trainer=auto or trainer=cpu"
            + (", or fewer trainer.devices." if wanted else ".")
        ) from None


def devices(trainer: configs.TrainerConfig) -> int:
    """How many devices a config stands for: each of them embeds in a process of its own.

    Raises:
        InputError: this machine has fewer.
    """
    if trainer.devices == 1:
        return 1
    asked = engine(trainer, devices=trainer.devices)
    cores = os.cpu_count() or 1
    if isinstance(asked.accelerator, CPUAccelerator) and asked.num_devices > cores:
        raise InputError(
            f"trainer.devices={trainer.devices}: this machine has {cores} cores and no GPU is asked for. "
            "Choose fewer."
        )
    return asked.num_devices
