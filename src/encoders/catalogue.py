"""List the available encoders, and facts about published encoders: size, cost, accuracy, training data."""

import csv
import functools
import re
from pathlib import Path

from src import configs
from src.encoders import family_of, hub, open_published
from src.errors import InputError
from src.storage import cache

# Output of `python -m benchmarks.profiles`.
PROFILES = Path(__file__).with_name("profiles.csv")
# Sizes of models that it cannot build without files of the hub, with their source; empty where unknown.
SIZES = Path(__file__).with_name("sizes.csv")
# Models of open_clip 2.22.0, the only release with as many models as the paper (90), whose list is not
# available.
CAPITANI = Path(__file__).with_name("capitani2024.csv")
COLUMNS = ("architecture", "parameters_millions", "gflops_image", "gflops_text", "width")
# Zero-shot accuracy on ImageNet-1k, in [0, 1]: the column "ImageNet 1k" of open_clip's
# docs/openclip_results.csv at commit f862f86cd921 (OpenAI's and DFN's weights are listed under the
# architecture with the GELU of their training).
ZERO_SHOT = Path(__file__).with_name("zero_shot.csv")
FACTS = ("parameters_millions", "gflops_image", "zero_shot")
# Short names of the training data of published models, as stated by their authors. The data of weights from
# which towers were initialised are not listed. "unknown": the authors name no dataset. Further columns are
# empty where nothing is declared: pairs seen in training, in millions (`s34b` in a tag of open_clip;
# DataComp's scales; the cards of DFN's models), license (of the repository), languages of the texts, year of
# publication of the weights; filter, where it differs from that of the dataset. `source`: addresses of what
# is not in the name of the weights, read in stored copies; further sources are open_clip's README and
# docs/PRETRAINED.md.
PRETRAINING = Path(__file__).with_name("pretraining.csv")
# Dataset -> how its pairs were selected, whether it is public, and `source`; empty where nothing is declared.
TRAINING_SETS = Path(__file__).with_name("training_sets.csv")
DECLARED = ("filter", "public", "pairs_seen", "license", "languages", "released")
UNKNOWN, UNTRAINED = "unknown", "none"
# Suffixes of the names of open_clip's architectures for the activation or the resolution.
VARIANT = re.compile(r"(-quickgelu|[-_]\d{3})$")
# Random seed of the training in the name of a toy.
TRAINING_SEED = re.compile(r"\+seed=\d+")


def list_ids() -> list[str]:
    """List open_clip's ids, architecture/weights, with the architecture whose GELU was used in training."""
    import open_clip

    return [
        f"{name}/{tag}"
        for name, tag in open_clip.list_pretrained()
        if find_trained_architecture(name, tag) == name
    ]


def find_trained_architecture(name: str, tag: str) -> str:
    """Return the architecture whose GELU was used in the training of weights: NAME or NAME-quickgelu."""
    import open_clip

    is_quick = open_clip.get_pretrained_cfg(name, tag).get("quick_gelu", False)
    return name if not is_quick or open_clip.get_model_config(name).get("quick_gelu") else f"{name}-quickgelu"


def list_capitani() -> tuple[list[str], int]:
    """Return the (reconstructed) ids of the models of Capitani et al. 2024, and the number of listed names.

    Several names may refer to the same id.
    """
    with CAPITANI.open(encoding="utf-8", newline="") as file:
        rows = [(row["architecture"], row["weights"]) for row in csv.DictReader(file)]
    ids = [f"{find_trained_architecture(name, tag)}/{tag}" for name, tag in rows]
    return list(dict.fromkeys(ids)), len(rows)


@functools.cache
def read_rows_by_model(path: Path) -> dict[str, dict[str, str]]:
    """Read a csv of models: first column (id or architecture) -> row."""
    with path.open(encoding="utf-8", newline="") as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def profile_of(name: str) -> dict[str, str]:
    """Return the cells of `COLUMNS` for a model, without the architecture; empty if unknown."""
    profiles, sizes = read_rows_by_model(PROFILES), read_rows_by_model(SIZES)
    row = profiles.get(name) or sizes.get(name) or profiles.get(name.partition("/")[0], {})
    return {column: row.get(column, "") for column in COLUMNS[1:]}


def facts_of(model: configs.PretrainedConfig) -> dict[str, float]:
    """Return parameters (millions), GFLOPs per image and zero-shot accuracy (`FACTS`); NaN if unknown."""
    name = _find_published_id(model)
    cells = profile_of(name)
    if model.weights == "pretrained":
        cells |= read_rows_by_model(ZERO_SHOT).get(name, {})
    return {column: float(cells.get(column) or "nan") for column in FACTS}


def pretraining_of(model: configs.PretrainedConfig) -> str:
    """Return the short name of a model's training data, "unknown", or "none" for random weights.

    >>> pretraining_of(configs.OpenClipConfig(id="ViT-B-32/laion2b_s34b_b79k"))
    'laion2b'
    """
    if model.weights == "random":
        return UNTRAINED
    row = read_rows_by_model(PRETRAINING).get(_find_published_id(model), {})
    return model.pretraining or row.get("pretraining", UNKNOWN)


def declared_facts(model: configs.PretrainedConfig) -> dict[str, str]:
    """Return what is declared of a model's training and terms: `pretraining`, `DECLARED`; empty if unknown.

    >>> declared_facts(configs.OpenClipConfig(id="ViT-B-32/laion2b_s34b_b79k"))["filter"]
    'CLIP score'
    """
    pretraining = pretraining_of(model)
    cells = dict.fromkeys(DECLARED, "")
    if model.weights == "pretrained":
        cells |= read_rows_by_model(TRAINING_SETS).get(pretraining, {})
        row = read_rows_by_model(PRETRAINING).get(_find_published_id(model), {})
        cells |= {name: row[name] for name in DECLARED if row.get(name)}
    return {"pretraining": pretraining, **{name: cells[name] for name in DECLARED}}


def architecture_of(model: configs.PretrainedConfig) -> str:
    """Return the architecture of a published model of open_clip, or the name of any other model.

    >>> architecture_of(configs.OpenClipConfig(id="ViT-L-14-336-quickgelu/openai"))
    'ViT-L-14'
    """
    name = _find_published_id(model)
    if "/" not in name or name.startswith("hf-hub:"):
        return str(model.name)
    name = name.partition("/")[0]
    while VARIANT.search(name):
        name = VARIANT.sub("", name)
    return name


def remove_seed(model: str) -> str:
    """Return the name of a model without the random seed of its training.

    >>> remove_seed("toy_m+seed=2+bias=0.5")
    'toy_m+bias=0.5'
    """
    return TRAINING_SEED.sub("", model)


def _find_published_id(model: configs.PretrainedConfig) -> str:
    """Return the id of a model in the csv files; empty if the model is a folder."""
    return "" if hub.is_folder(model.id) else model.id


def is_cached(config: configs.PretrainedConfig) -> bool:
    """Return whether all files of a model are cached."""
    with cache.forbid_building():
        try:
            # Weights are looked up first, as they are missing most often.
            family_of(config).fetch_files(config)
            open_published(config, "")
        except (cache.NotStored, InputError):
            return False
    return True
