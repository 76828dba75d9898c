"""Weights that others trained: where they are, which they are, and how they are read."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from src import configs
from src.encoders import hub
from src.errors import InputError, brief
from src.storage import cache

PublishedConfig = configs.PretrainedConfig | configs.WeightsConfig


def weights(config: configs.PretrainedConfig, files: Callable[[], Sequence[Path]]) -> dict[str, str]:
    """Return revision and SHA-256 of an encoder's weights.

    Args:
        config: config of the encoder.
        files: function that returns the weights' files.

    Raises:
        InputError: a file is neither there nor to be had, or is not the one that `model.sha256` asks for.
        NotStored: within `cache.dry`, if a file would have to be fetched.
    """
    if config.weights == "random":
        return {"revision": "random", "sha256": "none: drawn with seed 0"}
    return verified(config, files(), "model")


def verified(config: PublishedConfig, paths: Sequence[Path], group: str) -> dict[str, str]:
    """Return revision and SHA-256 of weights, checked against the hash that a config asks for.

    Args:
        config: config of the model.
        paths: files of the weights.
        group: config group, for messages.

    Raises:
        InputError: they differ.
    """
    digest = hub.sha256(paths)
    if config.sha256 and config.sha256.lower() != digest:
        raise InputError(
            f"{config.id}: the weights have SHA-256 {digest}, {group}.sha256 asks for {config.sha256}. "
            f"Fetch the right ones, or correct {group}.sha256 ('' takes any)."
        )
    return {"revision": hub.revision(paths[0]), "sha256": digest}


def unpinned(config: PublishedConfig, group: str) -> None:
    """Refuse a revision of a folder, which has none.

    Raises:
        InputError: the revision is set.
    """
    if config.revision:
        raise InputError(f"{config.id} is a folder: it has no revision. Leave out {group}.revision (say '').")


def seeded(build: Callable[[], Any]) -> Any:
    """Build a network whose random weights, where it has any, are those of seed 0."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build()


@contextmanager
def strict(name: str) -> Iterator[None]:
    """Turn a library's warnings and errors over a model's files into errors of the user's.

    Args:
        name: name of the model, for messages.

    Raises:
        InputError: the files cannot be loaded.
    """
    # open_clip speaks through the root logger; what it would warn of is refused or asked for here.
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*QuickGELU.*")
            yield
    except (InputError, cache.NotStored):
        raise
    except Exception as error:  # four libraries read these files, and one raises bare Exceptions
        said = brief((str(error).strip() or repr(error)).splitlines()[0], 400)
        raise InputError(
            f"{name}: cannot be loaded ({said}). Its files are cut, belong to another architecture, or hold "
            "more than tensors; random weights are never taken in their place. Fetch them again."
        ) from None
    finally:
        logging.disable(logging.NOTSET)
