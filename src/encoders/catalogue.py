"""List the available encoders and their profiles: parameters, cost, width."""

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
def profiles() -> dict[str, dict[str, str]]:
    """Read the rows of profiles.csv, by architecture."""
    with PROFILES.open(encoding="utf-8", newline="") as file:
        return {row["architecture"]: row for row in csv.DictReader(file)}


def profile_of(name: str) -> dict[str, str]:
    """Return parameters (millions), GFLOPs per image and per text, and width of the vectors of a model."""
    row = profiles().get(name) or profiles().get(name.partition("/")[0], {})
    return {column: row.get(column, "unknown") for column in COLUMNS[1:]}


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
