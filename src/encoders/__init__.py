"""What looks: one protocol for every encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from src import configs
from src.encoders.protocol import Encoder, Network
from src.stimuli import ROLES, Table

__all__ = ["Encoder", "Network", "blank", "check_precision", "open_encoder", "require"]


# Files of a published encoder are looked up and hashed once per process.
_open: dict[str, Encoder] = {}


def open_encoder(cfg: configs.RunConfig, table: Callable[[str], Table]) -> Encoder:
    """The encoder that a job names; nothing is loaded yet.

    Args:
        cfg: the job.
        table: gives the stimulus table of a role: a toy is trained on all four.

    Raises:
        InputError: a table or a file that the encoder needs cannot be had.
        NotStored: within `artifacts.dry`, where a file would have to be fetched.
        TypeError: the model has no encoder.
    """
    if isinstance(cfg.model, configs.ToyConfig):
        from src.encoders import toy

        return toy.encoder(cfg, {role: table(role) for role in ROLES})
    if isinstance(cfg.model, configs.PretrainedConfig):
        key = repr((cfg.model, cfg.trainer.accelerator))
        if key not in _open:
            _open[key] = published_encoder(cfg.model, cfg.trainer.accelerator)
        return _open[key]
    raise TypeError(f"{type(cfg.model).__name__} names no encoder")


def require(cfg: configs.RunConfig) -> None:
    """Check that this machine computes in the model's precision, and that weights of others are intact.

    Raises:
        InputError: it does not, or they are not.
    """
    check_precision(cfg)
    if isinstance(cfg.model, configs.PretrainedConfig):
        published_encoder(cfg.model, cfg.trainer.accelerator).weights()


def check_precision(cfg: configs.RunConfig) -> None:
    """Check that this machine computes in the precision of a job's model; warn where that is slow.

    Raises:
        InputError: see `processor.check_precision`.
    """
    if isinstance(cfg.model, configs.EncoderConfig) and cfg.model.precision != "fp32":
        from src.encoders import processor

        processor.check_precision("model.precision", cfg.model.precision, cfg.trainer.accelerator)


def published_encoder(model: configs.PretrainedConfig, accelerator: str) -> Encoder:
    """An encoder whose weights others made; its files are there, its weights not yet read.

    Raises:
        InputError: there is no such encoder, or its files are neither there nor to be had.
        NotStored: within `artifacts.dry`, where they would have to be fetched.
        TypeError: the model has no encoder.
    """
    if isinstance(model, configs.Blip2Config):
        from src.encoders import blip2

        return blip2.encoder(model, accelerator)
    if isinstance(model, configs.OpenClipConfig):
        from src.encoders import open_clip_weights

        return open_clip_weights.encoder(model, accelerator)
    raise TypeError(f"{type(model).__name__} names no encoder")


def blank(cfg: configs.RunConfig) -> Any:
    """A network of the architecture that a job names, with weights that mean nothing, for timing.

    Raises:
        InputError: its config cannot be had.
        TypeError: the model has no encoder.
    """
    if isinstance(cfg.model, configs.ToyConfig):
        from src.encoders import toy

        return toy.blank(cfg.model)
    if isinstance(cfg.model, configs.PretrainedConfig):
        drawn = replace(cfg.model, weights="random", sha256="")
        return published_encoder(drawn, cfg.trainer.accelerator).load()
    raise TypeError(f"{type(cfg.model).__name__} names no encoder")
