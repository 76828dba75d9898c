"""Facts of published models besides their vectors: size, cost, accuracy, training data."""

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

UNKNOWN, UNTRAINED = "unknown", "none"


def facts(model: configs.PretrainedConfig) -> dict[str, float]:
    """`FACTS`: parameters (millions), GFLOPs of an image, accuracy on ImageNet; NaN where unknown."""
    name = _published_id(model)
    profile = catalogue.profile_of(name)
    known = {column: _number(profile[column]) for column in FACTS[:2]}
    trained = model.weights == "pretrained"
    return known | {"zero_shot": zero_shot().get(name, math.nan) if trained else math.nan}


def pretraining(model: configs.PretrainedConfig) -> str:
    """Name the data that a model was trained on: as its config states it, or as `PRETRAINING` has it.

    Returns:
        A short name; "unknown" where neither names any, "none" of random weights.

    >>> pretraining(configs.OpenClipConfig(id="ViT-B-32/laion2b_s34b_b79k"))
    'laion2b'
    """
    if model.weights == "random":
        return UNTRAINED
    return model.pretraining or pretraining_sets().get(_published_id(model), UNKNOWN)


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


def _number(text: str) -> float:
    return math.nan if text == "unknown" else float(text)
