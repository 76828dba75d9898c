"""What looks: one protocol for every encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from src import configs
from src.encoders.protocol import Encoder, Network
from src.stimuli import ROLES, Table

__all__ = ["Encoder", "Network", "blank", "open_encoder"]


def open_encoder(cfg: configs.RunConfig, table: Callable[[str], Table]) -> Encoder:
    """The encoder that a job names; nothing is loaded yet.

    Args:
        cfg: the job.
        table: gives the stimulus table of a role: a toy is trained on all four.

    Raises:
        InputError: a table that the encoder needs cannot be had.
        TypeError: the model has no encoder.
    """
    if isinstance(cfg.model, configs.ToyConfig):
        from src.encoders import toy

        return toy.encoder(cfg, {role: table(role) for role in ROLES})
    raise TypeError(f"{type(cfg.model).__name__} names no encoder")


def blank(cfg: configs.RunConfig) -> Any:
    """A network of the architecture that a job names, with weights that mean nothing, for timing.

    Raises:
        TypeError: the model has no encoder.
    """
    if isinstance(cfg.model, configs.ToyConfig):
        from src.encoders import toy

        return toy.blank(cfg.model)
    raise TypeError(f"{type(cfg.model).__name__} names no encoder")
