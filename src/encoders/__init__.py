"""Encoders: one protocol, a module for each family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from src import configs
from src.encoders.protocol import Encoder, EncoderFamily, Network, family_of
from src.errors import InputError
from src.stimuli import ROLES, Table

# Files of a published encoder are looked up and hashed once per process.
_open: dict[str, Encoder] = {}


def open_encoder(cfg: configs.RunConfig, table: Callable[[str], Table]) -> Encoder:
    """The encoder that a job names; nothing is loaded yet.

    Args:
        cfg: the job.
        table: gives the stimulus table of a role: a toy is trained on all four.

    Raises:
        InputError: a table or a file that the encoder needs cannot be had.
        NotStored: within `cache.dry`, where a file would have to be fetched.
    """
    training = family_of(cfg.model).training
    if training:
        return training.encoder(cfg, {role: table(role) for role in ROLES})
    key = repr((cfg.model, cfg.trainer.accelerator))
    if key not in _open:
        _open[key] = published_encoder(cfg.model, cfg.trainer.accelerator)
    return _open[key]


def require(cfg: configs.RunConfig) -> None:
    """Check that this machine computes in the model's precision, and that weights of others are intact.

    Raises:
        InputError: it does not, or they are not.
    """
    check_precision(cfg)
    if family_of(cfg.model).encoder:
        published_encoder(cfg.model, cfg.trainer.accelerator).weights()


def check_precision(cfg: configs.RunConfig) -> None:
    """Check that this machine computes in the precision of a job's model; warn where that is slow.

    Raises:
        InputError: see `processor.check_precision`.
    """
    if isinstance(cfg.model, configs.EncoderConfig) and cfg.model.precision != "fp32":
        from src.encoders import processor

        processor.check_precision("model.precision", cfg.model.precision, cfg.trainer.accelerator)


def published_encoder(model: configs.ModelConfig, accelerator: str) -> Encoder:
    """Open an encoder whose weights others made; its files are there, its weights not yet read.

    Raises:
        InputError: there is no such encoder, or its files are neither there nor to be had.
        NotStored: within `cache.dry`, where they would have to be fetched.
    """
    family = family_of(model)
    if family.encoder is None:
        raise InputError(
            f"model.family={model.family}: expected an encoder, got vectors. Choose another model."
        )
    encoder = family.encoder(model, accelerator)
    if model.family in configs.FAMILIES:
        return encoder
    stated = {key: value for key, value in vars(model).items() if key not in ("name", "family", "batch_size")}
    parts = {f"encoders.{family.name}": family.version}
    identity = {"config": stated, "accelerator": accelerator, "parts": parts, **encoder.identity}
    return replace(encoder, identity=identity)


def blank(cfg: configs.RunConfig) -> Network:
    """Build a network of the architecture that a job names, with random weights, for its sizes and timing.

    Raises:
        InputError: its config cannot be had.
    """
    model, training = cfg.model, family_of(cfg.model).training
    if training:
        return training.blank(model)
    if isinstance(model, configs.PretrainedConfig):
        model = replace(model, weights="random", sha256="")
    return published_encoder(model, cfg.trainer.accelerator).load()
