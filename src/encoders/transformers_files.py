"""Locate the files of a checkpoint of transformers."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from src.encoders import hub, pretrained
from src.errors import InputError, brief

FORMATS = ("model.safetensors", "pytorch_model.bin")
WEIGHTS = tuple(name + suffix for name in FORMATS for suffix in ("", ".index.json"))


def locate(config: pretrained.PublishedConfig, group: str, kind: str, remedy: str) -> hub.Source:
    """Return the source of a checkpoint; raise `InputError` for an empty id or the revision of a folder."""
    if not config.id.strip():
        raise InputError(f"{group}.id is empty. Set it to owner/name on the hub, or to a folder.")
    if Path(config.id).is_dir():
        pretrained.refuse_revision(config, group)
        return hub.Source(config.id, folder=True, remedy=f"Put the files of a {kind} there.")
    return hub.Source(config.id, config.revision or None, remedy=remedy)


def files(source: hub.Source) -> list[Path]:
    """Return the file of the weights, or their index and the files that it names.

    Raises:
        InputError: the index is invalid; or see `hub.files`.
    """
    (path,) = hub.files(source, [WEIGHTS]).values()
    if path.suffix != ".json":
        return [path]
    try:
        names = sorted(set(json.loads(path.read_text("utf-8"))["weight_map"].values()))
        if not names or any(Path(name).name != name for name in names):
            raise ValueError("it names no file, or a file in another folder")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: not an index of weights ({brief(repr(error))}). {source.remedy}") from None
    return [path, *hub.files(source, [(name,) for name in names]).values()]


@contextmanager
def link(paths: Sequence[Path]) -> Iterator[Path]:
    """Make a temporary folder with links to the given files only.

    Vectors are stored under a hash of these files: transformers must not find any others.
    """
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            (Path(folder) / path.name).symlink_to(path.absolute())
        yield Path(folder)


def check_complete(loading_info: Mapping[str, Any]) -> None:
    """Raise `ValueError` if transformers' loading information lists missing or misshapen tensors."""
    missing = sorted(map(str, [*loading_info["missing_keys"], *loading_info["mismatched_keys"]]))
    if missing:
        raise ValueError(f"{len(missing)} tensors are missing or have another shape, first {missing[0]}")
