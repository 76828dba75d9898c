"""Open small encoders that are trained on the captions of a job's dataset, once for all jobs."""

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from src import configs
from src.encoders import caption_languages
from src.encoders.catalogue import FACTS, UNTRAINED, remove_seed
from src.encoders.protocol import Encoder, EncoderFamily, half_precision_versions
from src.errors import InputError
from src.stimuli import Table, pictures
from src.storage import cache
from src.storage.versions import declared_versions, library_versions

log = logging.getLogger(__name__)

WEIGHTS = "model.safetensors"
WORDS = "words"  # key of the vocabulary in the metadata of the weights
# Config fields that do not affect the training of a toy.
NOT_TRAINED = ("name", "family", "batch_size", "precision")
# Fields of the captions' config that decide their languages, which older toys do not have.
LANGUAGE_FIELDS = ("languages", "translated_bias")
# Libraries that affect the numbers; pillow and torchvision resize pictures.
LIBRARIES = ("torch", "torchvision", "pillow", "open_clip_torch", "lightning")


def open_toy(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> Encoder:
    """Open the toy of a job, which is trained on the tables of all four roles.

    Its `identify_weights` and `load` train it if its checkpoint is not stored.
    """
    config = cfg.model
    assert isinstance(config, configs.ToyConfig)
    _refuse_training(config, cfg.faces)
    tables = caption_languages.select_tables(cfg, tables)
    translations = caption_languages.build_translations(cfg)
    identity: dict[str, Any] = {
        "architecture": "open_clip.model.CLIP",
        "config": {k: v for k, v in vars(config).items() if k not in NOT_TRAINED},
        "captions": {k: v for k, v in vars(cfg.demo).items() if k not in LANGUAGE_FIELDS},
        "tables": {role: table.hash for role, table in tables.items()},
        "parts": declared_versions("encoders.toy", "preprocessing"),
        "preprocessing": "open_clip: shortest edge, bicubic, centre crop; OpenAI's mean and deviation",
        "accelerator": cfg.trainer.accelerator,
        "versions": library_versions(*LIBRARIES),
    }
    if translations:
        turns = [(code, cache.fingerprint(translation)) for code, translation in translations.items()]
        identity |= {"languages": turns, "translated_bias": cfg.demo.translated_bias}
    _check(config, tables)
    key = cache.fingerprint(identity)

    def build(folder: Path) -> Mapping[str, Any]:
        from safetensors.torch import save_file

        words = caption_languages.list_words(cfg, tables, translations)
        network = _build_network(config, words)
        if config.steps:
            _train(network, cfg, config, tables, translations)
        tensors = {name: value.contiguous().cpu() for name, value in network.model.state_dict().items()}
        save_file(tensors, folder / WEIGHTS, {WORDS: " ".join(words)})
        return identity

    def fetch_checkpoint() -> Path:
        return cache.fetch(Path(cfg.store.checkpoints), key, build)

    def identify_weights() -> Mapping[str, str]:
        return {
            "revision": key,
            "sha256": cache.read_manifest(fetch_checkpoint())["files"][WEIGHTS]["sha256"],
        }

    def load() -> Any:
        from safetensors import safe_open
        from safetensors.torch import load_file

        with safe_open(fetch_checkpoint() / WEIGHTS, "pt") as file:
            words = file.metadata()[WORDS].split(" ")
        weights = load_file(fetch_checkpoint() / WEIGHTS)
        return _build_network(config, words, config.precision, weights).eval()

    parts = identity["parts"] | half_precision_versions(config.precision)
    return Encoder(identity | {"precision": config.precision, "parts": parts}, identify_weights, load)


def _build_network(
    config: configs.ToyConfig,
    words: list[str],
    precision: str = "fp32",
    weights: Mapping[str, Any] | None = None,
) -> Any:
    from open_clip.transform import image_transform

    from src.demo import toys
    from src.demo.vocabulary import Vocabulary
    from src.encoders.openclip import OpenClip

    tokenizer = Vocabulary(words, config.context_length)
    transform = image_transform(config.image_size, is_train=False)
    model = toys.build(config, tokenizer.size)
    if weights:  # half precision renames projections
        model.load_state_dict(weights)
    return OpenClip(model, transform, tokenizer, str(config.name), precision)


def _train(
    network: Any,
    cfg: configs.RunConfig,
    config: configs.ToyConfig,
    tables: Mapping[str, Table],
    translations: caption_languages.Translations,
) -> None:
    import torch

    from src.demo import toys
    from src.encoders.trainer import make_trainer

    trainer = make_trainer(cfg.trainer, max_epochs=1)
    log.info("training %s on %d captioned pictures", config.name, config.steps * config.pairs)
    picture_indices, captioned = caption_languages.draw_captions(
        cfg, tables, translations, config.steps * config.pairs, config.seed
    )
    paths = [*tables["faces"].frame["path"], *tables["scenes"].frame["path"]]
    pixels = torch.stack([network.transform(pictures.read(path)) for path in paths])
    sentences, sentence_indices = np.unique(captioned, return_inverse=True)
    tokens = network.tokenize([str(sentence) for sentence in sentences])
    pairs = np.stack([picture_indices, sentence_indices], axis=1)
    toys.train(config, network, pixels, tokens, pairs, trainer)


def _check(config: configs.ToyConfig, tables: Mapping[str, Table]) -> None:
    """Raise `InputError` for sizes that do not divide each other, or labels of other groups or axes."""
    if config.width % config.heads or config.image_size % config.patch_size:
        raise InputError(
            f"{config.name}: model.heads={config.heads} must divide model.width={config.width}, and "
            f"model.patch_size={config.patch_size} must divide model.image_size={config.image_size}."
        )
    missing = sorted(set(tables["faces"].groups) - set(tables["labels"].groups))
    if missing:
        raise InputError(
            f"{config.name}: no label names the faces of {', '.join(missing)}; labels name "
            f"{', '.join(tables['labels'].groups)}. Give both the same groups: a toy learns the label "
            "of each face."
        )
    columns = tables["labels"].frame.columns
    unnamed = [axis for axis in ("race", "gender") if not {axis, f"{axis}_word"} <= {*columns}]
    if config.steps and unnamed:
        raise InputError(
            f"{config.name}: a toy learns labels of race and gender, and these name no "
            f"{' and no '.join(unnamed)}. Choose labels of both, such as labels=race_gender, or a "
            "pretrained model, such as model=clip_b32."
        )


def _refuse_training(config: configs.ToyConfig, faces: configs.RoleConfig) -> None:
    """Refuse to train on pictures that may be used for evaluation only."""
    parents = faces.parents if isinstance(faces, configs.MorphsConfig) else faces
    if config.steps and (title := configs.EVALUATION_ONLY.get(type(parents))):
        raise InputError(
            f"{config.name} is trained on the faces of the dataset, and {title} is for evaluation only. "
            "Choose a pretrained model, such as model=clip_b32, or other faces."
        )


def _compute_size(toy: configs.ToyConfig) -> tuple[float, float]:
    """Compute the parameters (millions) and GFLOPs per image (2 per multiply-add) of a toy from its config.

    The embeddings of words are not counted, as their number depends on the dataset. To build the toy instead
    would import libraries, which takes longer than an experiment.
    """
    width, patch = toy.width, 3 * toy.patch_size**2
    patches = (toy.image_size // toy.patch_size) ** 2
    tokens = patches + 1  # with the class token
    # Per layer: attention 4 w^2 + 4 w, MLP 8 w^2 + 5 w, two norms 4 w; then a norm and a projection.
    tower = toy.layers * (12 * width**2 + 13 * width) + 2 * width + width * toy.embed_dim
    image_tower = patch * width + (1 + tokens + 2) * width + tower
    text_tower = toy.context_length * width + tower
    per_block = tokens * (12 * width**2 + 2 * tokens * width)
    multiply_adds = patches * patch * width + toy.layers * per_block + width * toy.embed_dim
    return (image_tower + text_tower + 1) / 1e6, 2 * multiply_adds / 1e9  # 1: the logit scale


FAMILY = EncoderFamily(
    name="toy",
    config=configs.ToyConfig,
    training=open_toy,
    untrained_network=lambda config: _build_network(config, [], config.precision),
    pretraining=lambda config: "the dataset's captions" if config.steps else UNTRAINED,
    facts=lambda config: dict(zip(FACTS, (*_compute_size(config), math.nan), strict=True)),
    architecture=lambda config: remove_seed(str(config.name)),
)
