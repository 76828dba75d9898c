"""Locate, verify and load pretrained weights."""

import logging
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from src import configs
from src.configs.quoting import quote
from src.encoders import hub
from src.errors import InputError, brief
from src.storage import cache

PublishedConfig = configs.PretrainedConfig | configs.WeightsConfig


def weights(config: configs.PretrainedConfig, files: Callable[[], Sequence[Path]]) -> dict[str, str]:
    """Return revision and SHA-256 of an encoder's weights; raise `InputError` if they are unavailable."""
    if config.weights == "random":
        return {"revision": "random", "sha256": "none: drawn with seed 0"}
    return verify_weights(config, files(), "model")


def verify_weights(config: PublishedConfig, paths: Sequence[Path], group: str) -> dict[str, str]:
    """Return revision and SHA-256 of weight files; raise `InputError` if the config's hash differs."""
    digest = hub.sha256(paths)
    if config.sha256 and config.sha256.lower() != digest:
        raise InputError(
            f"{config.id}: expected weights of SHA-256 {group}.sha256={config.sha256}, got {digest}. "
            f"Fetch the right ones, or correct {group}.sha256 ('' accepts any)."
        )
    return {"revision": hub.revision(paths[0]), "sha256": digest}


def refuse_revision(config: PublishedConfig, group: str) -> None:
    """Raise `InputError` if a config names a revision of a folder; `group` is its config group."""
    if config.revision:
        raise InputError(
            f"{config.id}: a folder has no revision. Leave out {group}.revision (or set it to '')."
        )


def build_seeded(build: Callable[[], Any]) -> Any:
    """Build a network, with seed 0 for its random weights."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build()


@contextmanager
def strict(name: str) -> Iterator[None]:
    """Turn a library's warnings and errors about the files of a model into `InputError`s."""
    # open_clip logs to the root logger. Everything that it warns of is either rejected here or intended.
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*QuickGELU.*")
            yield
    except (InputError, cache.NotStored):
        raise
    except Exception as error:  # four libraries read these files, and one raises bare Exceptions
        cause = brief((str(error).strip() or repr(error)).splitlines()[0], 400)
        raise InputError(
            f"{name}: cannot be loaded ({cause}). Its files are truncated, belong to another architecture, "
            "or contain more than tensors; random weights are never used instead. Fetch them again."
        ) from None
    finally:
        logging.disable(logging.NOTSET)


def fetch_command(config: configs.PretrainedConfig) -> str:
    """Return the command that fetches exactly the files of a config.

    >>> fetch_command(configs.OpenClipConfig(id="hf-hub:lab/clip", revision="a6f597a3"))
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
