"""Files of a checkpoint of transformers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from src.encoders import hub, pretrained
from src.errors import InputError, brief

WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


def place(config: pretrained.PublishedConfig, group: str, kind: str, remedy: str) -> hub.Place:
    """Return the place of a checkpoint.

    Args:
        config: config of the model.
        group: config group, for messages.
        kind: kind of model, for messages.
        remedy: what to do if the hub cannot be reached.

    Raises:
        InputError: the id is empty, or a folder's with a revision.
    """
    if not config.id.strip():
        raise InputError(f"{group}.id is empty. Say owner/name on the hub, or a folder.")
    if Path(config.id).is_dir():
        pretrained.unpinned(config, group)
        return hub.Place(config.id, folder=True, remedy=f"Put the files of a {kind} there.")
    return hub.Place(config.id, config.revision or None, remedy=remedy)


def files(place: hub.Place) -> list[Path]:
    """The file of the weights, or the index and the files that it names.

    Raises:
        InputError: they are neither there nor to be had.
        NotStored: within `artifacts.dry`, where they would have to be fetched.
    """
    (path,) = hub.files(place, [WEIGHTS]).values()
    if path.suffix != ".json":
        return [path]
    try:
        named = sorted(set(json.loads(path.read_text("utf-8"))["weight_map"].values()))
        if not named or any(Path(name).name != name for name in named):
            raise ValueError("it names no file, or one elsewhere")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: not an index of weights ({brief(repr(error))}). {place.remedy}") from None
    return [path, *hub.files(place, [(name,) for name in named]).values()]


@contextmanager
def linked(paths: Sequence[Path]) -> Iterator[Path]:
    """A folder of these files alone: what else lies beside them is not in the key, and is not read."""
    with tempfile.TemporaryDirectory() as place:
        for path in paths:
            (Path(place) / path.name).symlink_to(path.absolute())
        yield Path(place)


def complete(loading: Mapping[str, Any]) -> None:
    """Check transformers' information on loading: every tensor was in the checkpoint.

    Raises:
        ValueError: one was not, or has another shape.
    """
    lacking = sorted(map(str, [*loading["missing_keys"], *loading["mismatched_keys"]]))
    if lacking:
        raise ValueError(f"{len(lacking)} tensors lack or misfit, first {lacking[0]}")
