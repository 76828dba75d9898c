"""List the available encoders and facts of published ones: size, cost, accuracy, training data."""

import csv
import functools
from pathlib import Path

from src import configs
from src.encoders import family_of, published_encoder
from src.errors import InputError
from src.storage import cache

# Output of `python -m benchmarks.profiles`.
PROFILES = Path(__file__).with_name("profiles.csv")
# Models of open_clip 2.22.0, the release that lists exactly 90: the paper's own list is not available.
CAPITANI = Path(__file__).with_name("capitani2024.csv")
COLUMNS = ("architecture", "parameters_millions", "gflops_image", "gflops_text", "width")
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


def ids() -> list[str]:
    """Return every architecture/weights of open_clip whose architecture has the GELU of its training."""
    import open_clip

    return [f"{name}/{tag}" for name, tag in open_clip.list_pretrained() if trained_as(name, tag) == name]


def trained_as(name: str, tag: str) -> str:
    """Return the architecture whose GELU the weights were trained with: `name`, or `name`-quickgelu."""
    import open_clip

    is_quick = open_clip.get_pretrained_cfg(name, tag).get("quick_gelu", False)
    return name if not is_quick or open_clip.get_model_config(name).get("quick_gelu") else f"{name}-quickgelu"


def capitani() -> tuple[list[str], int]:
    """Return the reconstructed ids of the models of Capitani et al. 2024, and the number of names listed."""
    with CAPITANI.open(encoding="utf-8", newline="") as file:
        rows = [(row["architecture"], row["weights"]) for row in csv.DictReader(file)]
    ids = [f"{trained_as(name, tag)}/{tag}" for name, tag in rows]
    return list(dict.fromkeys(ids)), len(rows)


@functools.cache
def rows_by_model(path: Path) -> dict[str, dict[str, str]]:
    """Read the rows of a table of models, by their first column: the id or the architecture."""
    with path.open(encoding="utf-8", newline="") as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def profile_of(name: str) -> dict[str, str]:
    """Return parameters (millions), GFLOPs per image and per text, and width of the vectors of a model."""
    profiles = rows_by_model(PROFILES)
    row = profiles.get(name) or profiles.get(name.partition("/")[0], {})
    return {column: row.get(column, UNKNOWN) for column in COLUMNS[1:]}


def facts(model: configs.PretrainedConfig) -> dict[str, float]:
    """Return `FACTS`: parameters (millions), GFLOPs per image, accuracy on ImageNet; NaN if unknown."""
    name = _published_id(model)
    cells = profile_of(name)
    if model.weights == "pretrained":
        cells |= rows_by_model(ZERO_SHOT).get(name, {})
    return {column: float(cells.get(column, UNKNOWN).replace(UNKNOWN, "nan")) for column in FACTS}


def pretraining(model: configs.PretrainedConfig) -> str:
    """Return the short name of a model's training data: "unknown", or "none" for random weights.

    >>> pretraining(configs.OpenClipConfig(id="ViT-B-32/laion2b_s34b_b79k"))
    'laion2b'
    """
    if model.weights == "random":
        return UNTRAINED
    row = rows_by_model(PRETRAINING).get(_published_id(model), {})
    return model.pretraining or row.get("pretraining", UNKNOWN)


def _published_id(model: configs.PretrainedConfig) -> str:
    """Return the id of a model in the tables; "" for a folder of any name."""
    return "" if Path(model.id).is_dir() else model.id


def is_cached(config: configs.PretrainedConfig) -> bool:
    """Return whether all files of a model are cached."""
    with cache.dry():
        try:
            # Weights first: they are the most likely to be missing, and cheap to look up.
            family_of(config).files(config)
            published_encoder(config, "")
        except (cache.NotStored, InputError):
            return False
    return True
