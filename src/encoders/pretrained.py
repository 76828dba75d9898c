"""Locate, verify and load pretrained weights."""

import json
import logging
import shlex
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from src import configs
from src.configs.composition import quote
from src.encoders import hub
from src.errors import InputError, brief
from src.storage import cache

PublishedConfig = configs.PretrainedConfig | configs.WeightsConfig
# File names of the weights in a checkpoint of transformers.
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
# Each of them, followed by the index of its shards.
WEIGHT_OR_INDEX_FILES = tuple(name + suffix for name in WEIGHT_FILES for suffix in ("", ".index.json"))
SAFETENSORS = WEIGHT_OR_INDEX_FILES[:2]


def identify_weights(
    config: configs.PretrainedConfig, locate_files: Callable[[], Sequence[Path]]
) -> dict[str, str]:
    """Return `revision` and `sha256` of an encoder's weights; raise `InputError` if they are unavailable.

    `locate_files`: () -> files of the weights, fetched if they are not cached; not called for random weights.
    """
    if config.weights == "random":
        return {"revision": "random", "sha256": "none: drawn with seed 0"}
    return verify_weights(config, locate_files(), "model")


def verify_weights(config: PublishedConfig, paths: Sequence[Path], group: str) -> dict[str, str]:
    """Return `revision` and `sha256` of weight files; raise `InputError` if the config expects another hash.

    `group`: config group of the model, for messages.
    """
    digest = hub.hash_files(paths)
    if config.sha256 and config.sha256.lower() != digest:
        raise InputError(
            f"{config.id}: expected SHA-256 {config.sha256} ({group}.sha256), got {digest}. "
            f"Fetch the expected weights, or correct {group}.sha256 ('' accepts any)."
        )
    # The hub's cache has a folder per commit, in which weights may be in a subfolder; other files are the
    # user's.
    commits = (folder.name for folder in paths[0].parents[:2] if folder.parent.name == "snapshots")
    return {"revision": next(commits, "folder"), "sha256": digest}


def locate_source(config: PublishedConfig, group: str, kind: str, remedy: str) -> hub.Source:
    """Return the source of a model, on the hub or in a folder.

    Raises `InputError` for an empty id, or a folder with a revision.

    Args:
        config: config of the model.
        group: its config group, for messages.
        kind: kind of model expected in a folder, for messages.
        remedy: remedy for files that are missing on the hub.
    """
    if not config.id.strip():
        raise InputError(f"{group}.id is empty. Set it to owner/name on the hub, or to a folder.")
    if hub.is_folder(config.id):
        if config.revision:
            raise InputError(
                f"{config.id}: a folder has no revision. Leave out {group}.revision (or set it to '')."
            )
        return hub.Source(config.id, is_folder=True, remedy=f"Put the files of a {kind} there.")
    return hub.Source(config.id, config.revision or None, remedy=remedy)


def locate_transformers_weights(
    source: hub.Source, names: Sequence[str] = WEIGHT_OR_INDEX_FILES, folder: str = ""
) -> list[Path]:
    """Locate the weights of a checkpoint of transformers: one file, or an index and the files it lists.

    Args:
        source: source of the files.
        names: alternative names of the file or of the index, in order of preference.
        folder: folder of the checkpoint in the source, with a slash at the end; empty: the source itself.

    Raises:
        InputError: the index is invalid; or see `hub.locate_files`.
    """
    (path,) = hub.locate_files(source, [[folder + name for name in names]]).values()
    if path.suffix != ".json":
        return [path]
    try:
        names = sorted(set(json.loads(path.read_text("utf-8"))["weight_map"].values()))
        if not names or any(Path(name).name != name for name in names):
            raise ValueError("expected names of files in the same folder")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: not an index of weights ({brief(repr(error))}). {source.remedy}") from None
    return [path, *hub.locate_files(source, [(folder + name,) for name in names]).values()]


@contextmanager
def link_files(paths: Mapping[str, Path]) -> Iterator[Path]:
    """Make a temporary folder of links to files; `paths`: name in the folder -> file.

    Vectors are stored under a hash of these files, so a library must not be able to read any other file.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, path in paths.items():
            link = Path(folder) / name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(path.absolute())
        yield Path(folder)


def check_complete(loading_info: Mapping[str, Any]) -> None:
    """Raise `ValueError` if transformers' loading information lists missing tensors or mismatched shapes."""
    bad_tensors = sorted(map(str, [*loading_info["missing_keys"], *loading_info["mismatched_keys"]]))
    if bad_tensors:
        raise ValueError(
            f"{len(bad_tensors)} tensors are missing or have another shape, first {bad_tensors[0]}"
        )


def build_seeded(build: Callable[[], Any]) -> Any:
    """Build a network, with seed 0 for its random weights."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build()


@contextmanager
def convert_load_errors(name: str) -> Iterator[None]:
    """Convert a library's errors, and its QuickGELU warning, into `InputError`; silence logged warnings."""
    # open_clip logs warnings to the root logger. They are silenced, as each of their causes is either
    # rejected by this project or intended.
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*QuickGELU.*")
            yield
    except (InputError, cache.NotStored):
        raise
    except Exception as error:  # several libraries read these files, with exceptions of any type
        cause = brief((str(error).strip() or repr(error)).splitlines()[0], 400)
        raise InputError(
            f"{name}: cannot be loaded ({cause}). Its files may be truncated, belong to another "
            "architecture, or contain more than tensors; random weights are never used instead. Fetch them "
            "again, or choose another model."
        ) from None
    finally:
        logging.disable(logging.NOTSET)


def choose_default_name(config: configs.PretrainedConfig, choice: str) -> str:
    """Return a model's default name: the name `choice` of its YAML.

    The family's own YAML fits any of its models: for it, the name is the model's id or that of its folder.

    >>> choose_default_name(configs.OpenClipConfig(id="hf-hub:lab/clip"), "open_clip")
    'hf-hub:lab/clip'
    """
    if choice != config.family:
        return choice
    return Path(config.id).resolve().name if hub.is_folder(config.id) else config.id


def format_fetch_command(config: configs.PretrainedConfig) -> str:
    """Return the command that fetches exactly the files of a config.

    >>> format_fetch_command(configs.OpenClipConfig(id="hf-hub:lab/clip", revision="a6f597a3"))
    'python -m src.encoders fetch model=open_clip model.id=hf-hub:lab/clip model.revision=a6f597a3'
    """
    # An empty revision or hash must override one that is set in the family's YAML.
    defaults = OmegaConf.load(configs.CONF / "model" / f"{config.family}.yaml")
    values = {"id": config.id, "revision": config.revision, "sha256": config.sha256}
    values = {name: value for name, value in values.items() if value or name in defaults}
    if config.weights != "pretrained":
        values["weights"] = config.weights
    overrides = [f"model.{name}={quote(value)}" for name, value in values.items()]
    return shlex.join(["python", "-m", "src.encoders", "fetch", f"model={config.family}", *overrides])
