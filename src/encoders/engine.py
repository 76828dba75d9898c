"""Lightning's trainer as the project uses it: one device, nothing logged, nothing written."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning
from lightning.fabric.utilities.exceptions import MisconfigurationException

from src import configs
from src.errors import InputError


def engine(trainer: configs.TrainerConfig, **options: Any) -> lightning.Trainer:
    """Lightning's trainer for a config.

    Args:
        trainer: where to compute.
        options: more of `lightning.Trainer`'s.

    Raises:
        InputError: this machine cannot compute there.
    """
    # Lightning's advice would bury the run's own messages.
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"lightning\..*")
    try:
        return lightning.Trainer(
            accelerator=trainer.accelerator,
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            **options,
        )
    except (MisconfigurationException, ValueError) as error:
        raise InputError(
            f"trainer.accelerator={trainer.accelerator}: {error} Choose trainer=auto or trainer=cpu."
        ) from None
