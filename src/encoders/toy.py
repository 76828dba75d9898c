"""The small encoders: trained once on the captions of the dataset that they are run on."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from src import configs
from src.encoders.facts import FACTS, UNTRAINED
from src.encoders.protocol import Encoder, EncoderFamily, Training
from src.errors import InputError
from src.stimuli import Table, pictures
from src.storage import cache
from src.storage.versions import declared, versions

log = logging.getLogger(__name__)

WEIGHTS = "model.safetensors"
# What says how a toy is used, not how it is trained.
NOT_TRAINED = ("name", "family", "batch_size", "precision")
# Libraries that move the numbers: pictures are resized by pillow and torchvision.
DECISIVE = ("torch", "torchvision", "pillow", "open_clip_torch", "lightning")
# Of CLIP's tokeniser.
VOCABULARY = 49_408


def encoder(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> Encoder:
    """The toy that a job names, trained where its checkpoint is not stored.

    Args:
        cfg: the job; `cfg.model` is a `ToyConfig`.
        tables: all four roles.
    """
    config = cfg.model
    assert isinstance(config, configs.ToyConfig)
    identity = {
        "architecture": "open_clip.model.CLIP",
        "config": {k: v for k, v in vars(config).items() if k not in NOT_TRAINED},
        "captions": vars(cfg.demo),
        "tables": {role: table.hash for role, table in tables.items()},
        "parts": declared("encoders.toy", "preprocessing"),
        "preprocessing": "open_clip: shortest edge, bicubic, centre crop; OpenAI's mean and deviation",
        "accelerator": cfg.trainer.accelerator,
        "versions": versions(*DECISIVE),
    }
    _fits(config)
    _labelled(tables, str(config.name))
    key = cache.fingerprint(identity)

    def build(folder: Path) -> Mapping[str, Any]:
        network = blank(config)
        if config.steps:
            _train(network, cfg, config, tables)
        _save(network, folder / WEIGHTS)
        return identity

    def checkpoint() -> Path:
        return cache.fetch(Path(cfg.store.checkpoints), key, build)

    def weights() -> Mapping[str, str]:
        stored = cache.manifest(checkpoint())["files"][WEIGHTS]
        return {"revision": key, "sha256": stored["sha256"]}

    def load() -> Any:
        from safetensors.torch import load_file

        model = _untrained(config)
        model.load_state_dict(load_file(checkpoint() / WEIGHTS))
        return _network(config, model, config.precision).eval()

    return Encoder(identity | {"precision": config.precision}, weights, load)


def blank(config: configs.ToyConfig) -> Any:
    """The toy before its training."""
    return _network(config, _untrained(config), "fp32")


def _untrained(config: configs.ToyConfig) -> Any:
    from src.demo import toys

    return toys.build(config)


def _network(config: configs.ToyConfig, model: Any, precision: str) -> Any:
    from open_clip.tokenizer import SimpleTokenizer
    from open_clip.transform import image_transform

    from src.encoders.openclip import OpenClip

    return OpenClip(
        model,
        image_transform(config.image_size, is_train=False),
        SimpleTokenizer(context_length=config.context_length),
        str(config.name),
        precision,
    )


def _train(
    network: Any, cfg: configs.RunConfig, config: configs.ToyConfig, tables: Mapping[str, Table]
) -> None:
    import torch

    from src.demo import captions, toys
    from src.encoders.trainer import engine

    trainer = engine(cfg.trainer, max_epochs=1)
    log.info("training %s on %d captioned pictures", config.name, config.steps * config.pairs)
    frames = {role: table.frame for role, table in tables.items()}
    shown, captioned = captions.draw(
        **frames,
        count=config.steps * config.pairs,
        recipe=cfg.demo,
        seed=config.seed,
    )
    paths = [*frames["faces"]["path"], *frames["scenes"]["path"]]
    pixels = torch.stack([network.transform(pictures.read(path)) for path in paths])
    sentences, said = np.unique(captioned, return_inverse=True)
    tokens = network.tokenize([str(sentence) for sentence in sentences])
    toys.train(config, network.model, pixels, tokens, np.stack([shown, said], axis=1), trainer)


def _fits(config: configs.ToyConfig) -> None:
    if config.width % config.heads or config.image_size % config.patch_size:
        raise InputError(
            f"{config.name}: model.heads={config.heads} must divide model.width={config.width}, and "
            f"model.patch_size={config.patch_size} must divide model.image_size={config.image_size}."
        )


def _labelled(tables: Mapping[str, Table], name: str) -> None:
    without = sorted(set(tables["faces"].groups) - set(tables["labels"].groups))
    if without:
        raise InputError(
            f"{name}: no label names the faces of {', '.join(without)}; labels name "
            f"{', '.join(tables['labels'].groups)}. Give both the same groups: a toy learns what each face "
            "is called."
        )


def _save(network: Any, path: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: value.contiguous().cpu() for name, value in network.model.state_dict().items()}, path)


def _counted(toy: configs.ToyConfig) -> tuple[float, float]:
    """Parameters (millions) and GFLOPs of an image (2 per multiply-add) of a toy.

    Counted from its shape: to build it imports what trains it, which takes longer than an experiment.
    """
    width, patch = toy.width, 3 * toy.patch_size**2
    seen = (toy.image_size // toy.patch_size) ** 2
    tokens = seen + 1  # one more, that becomes the vector
    # Attention 4 w^2 + 4 w, perceptron 8 w^2 + 5 w, two norms; behind the last block a norm and a projection.
    tower = toy.layers * (12 * width**2 + 13 * width) + 2 * width + width * toy.embed_dim
    images = patch * width + (1 + tokens + 2) * width + tower
    texts = (VOCABULARY + toy.context_length) * width + tower
    block = tokens * (12 * width**2 + 2 * tokens * width)
    multiplied = seen * patch * width + toy.layers * block + width * toy.embed_dim
    return (images + texts + 1) / 1e6, 2 * multiplied / 1e9


FAMILY = EncoderFamily(
    name="toy",
    config=configs.ToyConfig,
    training=Training(encoder, blank),
    pretraining=lambda config: "the dataset's captions" if config.steps else UNTRAINED,
    facts=lambda config: dict(zip(FACTS, (*_counted(config), math.nan), strict=True)),
)
