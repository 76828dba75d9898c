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
        return dict(zip(FACTS, (*_measured(model), math.nan), strict=True))
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


_known: dict[str, tuple[float, float]] = {}


def _measured(model: configs.ToyConfig) -> tuple[float, float]:
    # A toy is built within milliseconds; its weights decide neither number.
    from src.encoders import toy

    key = repr(model)
    if key not in _known:
        network = toy.blank(model).eval().requires_grad_(False)
        parameters = sum(weight.numel() for weight in network.parameters()) / 1e6
        _known[key] = parameters, catalogue.gflops_image(network.model, model.image_size)
    return _known[key]


def _number(text: str) -> float:
    return math.nan if text == "unknown" else float(text)
