"""Look up facts of published models: size, cost, accuracy, training data."""

import csv
from functools import cache
from pathlib import Path

from src import configs
from src.encoders import catalogue

# Accuracy on ImageNet-1k without training on it, in [0, 1], of models that can be loaded as they were
# trained: open_clip's docs/openclip_results.csv, its column "ImageNet 1k", at commit f862f86cd921
# (OpenAI's and DFN's weights under the architecture with their GELU). Other models are unknown.
ZERO_SHOT = Path(__file__).with_name("zero_shot.csv")
FACTS = ("parameters_millions", "gflops_image", "zero_shot")

# Short names of the training data of published models, as stated by their authors: open_clip's
# README and docs/PRETRAINED.md, the papers of BLIP-2, EVA-CLIP, MetaCLIP, DFN and MobileCLIP. Image and
# text towers initialised from other weights are not listed. "unknown": the authors name no dataset.
PRETRAINING = Path(__file__).with_name("pretraining.csv")

UNKNOWN, UNTRAINED = "unknown", "none"


def facts(model: configs.PretrainedConfig) -> dict[str, float]:
    """Return `FACTS`: parameters (millions), GFLOPs per image, accuracy on ImageNet; NaN if unknown."""
    name = _published_id(model)
    cells = catalogue.profile_of(name) | {"zero_shot": UNKNOWN}
    if model.weights == "pretrained":
        cells["zero_shot"] = cells_by_id(ZERO_SHOT, "zero_shot").get(name, UNKNOWN)
    return {column: float(cells[column].replace(UNKNOWN, "nan")) for column in FACTS}


def pretraining(model: configs.PretrainedConfig) -> str:
    """Return the short name of a model's training data: "unknown", or "none" for random weights.

    >>> pretraining(configs.OpenClipConfig(id="ViT-B-32/laion2b_s34b_b79k"))
    'laion2b'
    """
    if model.weights == "random":
        return UNTRAINED
    return model.pretraining or cells_by_id(PRETRAINING, "pretraining").get(_published_id(model), UNKNOWN)


def _published_id(model: configs.PretrainedConfig) -> str:
    """Return the id of a model in the tables; "" for a folder of any name."""
    return "" if Path(model.id).is_dir() else model.id


@cache
def cells_by_id(path: Path, column: str) -> dict[str, str]:
    """Read a column of a table of models: id of a model -> cell."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row[column] for row in csv.DictReader(file)}
