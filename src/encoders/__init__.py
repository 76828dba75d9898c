"""Open encoders of all families under a common protocol."""

from collections.abc import Callable
from dataclasses import replace

from src import configs
from src.encoders.protocol import Encoder, EncoderFamily, Network, family_of
from src.errors import InputError
from src.stimuli import ROLES, Table

# Published encoders by config: their files are located and hashed once per process.
_open: dict[str, Encoder] = {}


def open_encoder(cfg: configs.RunConfig, table: Callable[[str], Table]) -> Encoder:
    """Open the encoder of a job without loading its weights; `table` returns the stimuli of a role.

    Raise `InputError` if a table or file is unavailable, `NotStored` if `cache.dry` forbids fetching a file.
    """
    training = family_of(cfg.model).training
    if training:
        return training(cfg, {role: table(role) for role in ROLES})
    key = repr((cfg.model, cfg.trainer.accelerator))
    if key not in _open:
        _open[key] = published_encoder(cfg.model, cfg.trainer.accelerator)
    return _open[key]


def require(cfg: configs.RunConfig) -> None:
    """Check that this machine computes in the model's precision, and that pretrained weights are intact."""
    check_precision(cfg)
    if family_of(cfg.model).encoder:
        published_encoder(cfg.model, cfg.trainer.accelerator).weights()


def check_precision(cfg: configs.RunConfig) -> None:
    """Check that this machine computes in the precision of a job's model (`precision.check_precision`)."""
    if isinstance(cfg.model, configs.EncoderConfig) and cfg.model.precision != "fp32":
        from src.encoders import precision

        precision.check_precision("model.precision", cfg.model.precision, cfg.trainer.accelerator)


def published_encoder(model: configs.ModelConfig, accelerator: str) -> Encoder:
    """Open a published encoder: locate its files without loading its weights.

    Raise `InputError` if it does not exist or its files are unavailable, `NotStored` as `open_encoder`.
    """
    family = family_of(model)
    if family.encoder is None:
        raise InputError(f"model.family={model.family}: a family without encoders. Choose another.")
    encoder = family.encoder(model, accelerator)
    if model.family in configs.FAMILIES:
        return encoder
    # A family defined outside this project may omit settings from its encoders' identity: add all of them.
    settings = {k: v for k, v in vars(model).items() if k not in ("name", "family", "batch_size")}
    parts = {f"encoders.{family.name}": family.version}
    identity = {"config": settings, "accelerator": accelerator, "parts": parts, **encoder.identity}
    return replace(encoder, identity=identity)


def blank(cfg: configs.RunConfig) -> Network:
    """Build the network of a job with random weights, to measure its sizes and speed."""
    model, blank_network = cfg.model, family_of(cfg.model).blank
    if blank_network:
        return blank_network(model)
    if isinstance(model, configs.PretrainedConfig):
        model = replace(model, weights="random", sha256="")
    return published_encoder(model, cfg.trainer.accelerator).load()
