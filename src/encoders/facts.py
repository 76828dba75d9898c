"""What is known of a model besides its vectors: size, cost, how well it classifies, what it has seen."""

from __future__ import annotations

import csv
import math
import re
from functools import cache
from pathlib import Path

from src import configs
from src.encoders import catalogue

# Accuracy on ImageNet-1k without training on it, in [0, 1], of models that can be loaded as they were
# trained: open_clip's docs/openclip_results.csv, its column "ImageNet 1k", at commit f862f86cd921
# (OpenAI's and DFN's weights under the architecture with their GELU). All else is unknown.
ZERO_SHOT = Path(__file__).with_name("zero_shot.csv")
FACTS = ("parameters_millions", "gflops_image", "zero_shot")

# Of CLIP's tokeniser.
VOCABULARY = 49_408

UNKNOWN, UNTRAINED, CAPTIONS = "unknown", "none", "the dataset's captions"
# What a tag of weights says of the run rather than of the data: samples seen and batch size, epochs, and
# what was done to the weights afterwards; a text tower that was frozen has seen the same pictures.
RUN = re.compile(r"^frozen_|_s\d+[bm](?=_|$)|_b\d+k(?=_|$)|_e\d+$|_(augreg|rewind|ft|soup|lt)(?=_|$)")
# One set under several names; and tags that name a release, of data that nobody says.
SETS = {
    "datacomp": "datacomp_xl",
    "datacomp1b": "datacomp_xl",
    "mscoco_finetuned_laion2b": "laion2b+mscoco",
    "v1": UNKNOWN,
    "mrl": UNKNOWN,
}


def facts(model: configs.ModelConfig) -> dict[str, float]:
    """`FACTS`: parameters (millions), GFLOPs of an image, accuracy on ImageNet; NaN where unknown."""
    if isinstance(model, configs.ToyConfig):
        return dict(zip(FACTS, (*_counted(model), math.nan), strict=True))
    if not isinstance(model, configs.PretrainedConfig):
        return dict.fromkeys(FACTS, math.nan)
    profile = catalogue.profile_of(model.id)
    found = {name: _number(profile[name]) for name in FACTS[:2]}
    trained = model.weights == "pretrained"
    return found | {"zero_shot": zero_shot().get(model.id, math.nan) if trained else math.nan}


def pretraining(model: configs.ModelConfig) -> str:
    """The data that a model was trained on, by a short name; "unknown" where only its maker knows.

    >>> pretraining(configs.OpenClipConfig(id="ViT-B-32/laion2b_s34b_b79k"))
    'laion2b'
    """
    if isinstance(model, configs.ToyConfig):
        return CAPTIONS if model.steps else UNTRAINED
    if not isinstance(model, configs.PretrainedConfig):
        return UNKNOWN
    if model.weights == "random":
        return UNTRAINED
    if isinstance(model, configs.Blip2Config):
        return "blip2"
    architecture, slash, tag = model.id.partition("/")
    listed = slash and ":" not in architecture and not Path(model.id).is_dir()
    return trained_on(tag) if listed else UNKNOWN


def trained_on(tag: str) -> str:
    """The data that open_clip's tag of weights names, without what it says of the run.

    >>> trained_on("laion2b_s34b_b82k_augreg_soup"), trained_on("commonpool_l_clip_s1b_b8k")
    ('laion2b', 'commonpool_l_clip')
    """
    name = RUN.sub("", tag)
    return SETS.get(name, name)


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
