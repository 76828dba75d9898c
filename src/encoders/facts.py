"""What is known of a model besides its vectors: size, cost, how well it classifies, what it has seen."""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path

from src import configs
from src.encoders import catalogue

# Accuracy on ImageNet-1k without training on it, in [0, 1], of models that can be loaded as they were
# trained: open_clip's docs/openclip_results.csv, its column "ImageNet 1k", at commit f862f86cd921
# (OpenAI's and DFN's weights under the architecture with their GELU). All else is unknown.
ZERO_SHOT = Path(__file__).with_name("zero_shot.csv")
FACTS = ("parameters_millions", "gflops_image", "zero_shot")

# What the weights of a published model were trained on, by a short name, as its maker states it: open_clip's
# README and docs/PRETRAINED.md, the papers of BLIP-2, EVA-CLIP, MetaCLIP, DFN and MobileCLIP. Image and
# text towers that began from other weights are not told. "unknown": its maker names no data set.
PRETRAINING = Path(__file__).with_name("pretraining.csv")

# Of CLIP's tokeniser.
VOCABULARY = 49_408

UNKNOWN, UNTRAINED, CAPTIONS = "unknown", "none", "the dataset's captions"


def facts(model: configs.ModelConfig) -> dict[str, float]:
    """`FACTS`: parameters (millions), GFLOPs of an image, accuracy on ImageNet; NaN where unknown."""
    if isinstance(model, configs.ToyConfig):
        return dict(zip(FACTS, (*_counted(model), math.nan), strict=True))
    if not isinstance(model, configs.PretrainedConfig):
        return dict.fromkeys(FACTS, math.nan)
    name = _published_id(model)
    profile = catalogue.profile_of(name)
    known = {column: _number(profile[column]) for column in FACTS[:2]}
    trained = model.weights == "pretrained"
    return known | {"zero_shot": zero_shot().get(name, math.nan) if trained else math.nan}


def pretraining(model: configs.ModelConfig) -> str:
    """Name the data that a model was trained on: as its config states it, or as `PRETRAINING` has it.

    Returns:
        A short name; "unknown" where neither names any, "none" of random weights.

    >>> pretraining(configs.OpenClipConfig(id="ViT-B-32/laion2b_s34b_b79k"))
    'laion2b'
    >>> pretraining(configs.PrecomputedConfig(path="vectors", pretraining="our scans"))
    'our scans'
    """
    if isinstance(model, configs.ToyConfig):
        return CAPTIONS if model.steps else UNTRAINED
    if isinstance(model, configs.PretrainedConfig):
        if model.weights == "random":
            return UNTRAINED
        return model.pretraining or pretraining_sets().get(_published_id(model), UNKNOWN)
    return model.pretraining or UNKNOWN if isinstance(model, configs.PrecomputedConfig) else UNKNOWN


def _published_id(model: configs.PretrainedConfig) -> str:
    """Return the id by which tables know a model; "" of a folder, whatever it is called."""
    return "" if Path(model.id).is_dir() else model.id


@cache
def pretraining_sets() -> dict[str, str]:
    """Read `PRETRAINING`: id of a model -> short name of its training data."""
    with PRETRAINING.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["pretraining"] for row in csv.DictReader(file)}


@cache
def zero_shot() -> dict[str, float]:
    """Id of a model -> its accuracy on ImageNet, in [0, 1]."""
    with ZERO_SHOT.open(encoding="utf-8", newline="") as file:
        return {row["id"]: float(row["zero_shot"]) for row in csv.DictReader(file)}


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


def _number(text: str) -> float:
    return math.nan if text == "unknown" else float(text)
