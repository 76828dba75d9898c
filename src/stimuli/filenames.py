"""Datasets whose labels stand in the names of their pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from src.errors import InputError, brief
from src.stimuli.safe_paths import no_link_out
from src.stimuli.safe_yaml import is_text

SUFFIXES = (".jpg", ".jpeg", ".png")


def read(
    folders: Sequence[Path], root: Path, pattern: str, example: str, remedy: str
) -> tuple[pd.DataFrame, int, list[str]]:
    """What the names of the pictures in some folders, and in the folders below them, say.

    Args:
        folders: to look in.
        root: above them; no link may lead out of it.
        pattern: of a name without its last suffix; its group `name` tells one picture from all
            others, its further groups become columns.
        example: a name that fits, for messages.
        remedy: what to do where there are no such pictures.

    Returns:
        One row per picture whose name fits, sorted by path: `id` (the group `name`), the further
        groups, and `path`; how many pictures there are; what was left out: other files, and
        pictures whose names do not fit.

    Raises:
        InputError: a folder is missing, a link leads out of the root, no name fits, a name that fits is
            no UTF-8, or two pictures have the same name.
    """
    files, others = _files(folders, root, remedy)
    matches = [(path, re.fullmatch(pattern, path.stem, re.ASCII)) for path in files]
    if strange := next((str(path) for path, match in matches if match and not is_text(str(path))), ""):
        raise InputError(f"{brief(strange, 1000)}: the name is not UTF-8. Rename the picture.")
    fitting = [{"path": str(path), **match.groupdict()} for path, match in matches if match]
    misnamed = [path.name for path, match in matches if match is None]
    shown = ", ".join(str(folder) for folder in folders)
    if not fitting:
        there = f"{len(files)} pictures, first {brief(files[0].name)!r}" if files else "no picture"
        raise InputError(f"{shown}: no picture is named like {example}; found {there}. {remedy}")
    frame = pd.DataFrame(fitting).rename(columns={"name": "id"})
    _unique(frame)
    notes = [f"{len(others)} files that are no pictures ({_first(others)})"] if others else []
    if misnamed:
        notes.append(f"{len(misnamed)} pictures are not named like {example} ({_first(misnamed)})")
    return frame, len(files), notes


def _files(folders: Sequence[Path], root: Path, remedy: str) -> tuple[list[Path], list[str]]:
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder. {remedy}")
    below = {path for folder in folders for path in folder.rglob("*")}
    no_link_out([*folders, *below], root, "faces.root")
    _entered([path for path in below if path.is_symlink() and path.is_dir()], folders)
    files = sorted(path for path in below if path.is_file())
    # Archives packed on a Mac hold a `._` shadow of each picture.
    pictures = [path for path in files if path.suffix.lower() in SUFFIXES and path.name[0] != "."]
    return pictures, [path.name for path in files if path not in set(pictures)]


def _entered(links: Sequence[Path], folders: Sequence[Path]) -> None:
    # Linked folders are not searched: what lies there would be missed, unless it is found at its own place.
    searched = [Path(os.path.realpath(folder)) for folder in folders]
    for link in sorted(links):
        if not any(Path(os.path.realpath(link)).is_relative_to(folder) for folder in searched):
            raise InputError(
                f"{link}: a link to a folder is not entered. Name the folder itself in faces.pictures, "
                "or copy it."
            )


def _unique(frame: pd.DataFrame) -> None:
    twice = frame[frame["id"].duplicated()]
    if len(twice):
        first = frame["path"][frame["id"] == twice["id"].iloc[0]].iloc[0]
        raise InputError(
            f"{twice['path'].iloc[0]}: the picture {twice['id'].iloc[0]} is at {first} already "
            f"({len(twice)} such pictures). Delete the copies, or name only the folder of one of them."
        )


def _first(names: Sequence[str], count: int = 3) -> str:
    return ", ".join([*(brief(name) for name in names[:count]), *(["..."] if len(names) > count else [])])
