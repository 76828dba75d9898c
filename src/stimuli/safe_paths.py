"""Reject paths and links that lead out of a data folder."""

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

import pandas as pd

from src.errors import InputError, brief


def check_paths(rows: pd.DataFrame, column: str, path: Path, setting: str) -> None:
    """Refuse a csv with cells that are absolute paths or lead out of the folder that `setting` names."""
    for number, name in zip(rows["row"], rows[column], strict=True):
        kinds = (PurePosixPath(name), PureWindowsPath(name))
        if any(kind.anchor for kind in kinds):
            raise InputError(
                f"{path}, row {number}: {brief(name)!r} is a full path. Write it relative to {setting}."
            )
        if any(".." in kind.parts for kind in kinds):
            raise InputError(f"{path}, row {number}: {brief(name)!r} leads out of {setting}. Correct it.")


def posix_paths(names: Iterable[str], root: Path, path: Path) -> tuple[list[str], list[str]]:
    """Convert relative paths to POSIX form, and note how many rows have the backslashes of Windows.

    The name of an existing file that contains a backslash is left unchanged.
    """
    names = list(names)
    converted = [
        name if "\\" not in name or os.path.isfile(root / name) else PureWindowsPath(name).as_posix()  # noqa: PTH113
        for name in names
    ]
    changed = sum(posix_name != name for posix_name, name in zip(converted, names, strict=True))
    notes = [f"paths of {path.name} with \\ in place of / in {changed} rows"] if changed else []
    return [str(PurePosixPath(name)) for name in converted], notes


def refuse_links_out(paths: Iterable[Path], root: Path, setting: str) -> None:
    """Refuse links that lead out of a folder, which may itself be a link; links within it are accepted.

    Paths outside the folder, which a user typed, are accepted. The message names the first such path and its
    target, and the `setting` of the folder.
    """
    real_root, normalised_root = Path(os.path.realpath(root)), os.path.normpath(root)
    # Folder of a path -> its target; None if the folder is outside of `root`.
    parents: dict[Path, Path | None] = {}
    for path in paths:
        if path.parent not in parents:
            inside = Path(os.path.normpath(path)).is_relative_to(normalised_root)
            parents[path.parent] = Path(os.path.realpath(path.parent)) if inside else None
        parent = parents[path.parent]
        if parent is None:
            continue
        # os.path accepts names that Path methods refuse: a name too long for the file system is not a link.
        real = Path(os.path.realpath(path)) if os.path.islink(path) else parent / path.name  # noqa: PTH114
        if not real.is_relative_to(real_root):
            raise InputError(f"{path}: a link leads out of {root}, to {real}. Copy that, or set {setting}.")
