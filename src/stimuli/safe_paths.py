"""Folders of data keep to themselves: neither a cell nor a link leads out of one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

import pandas as pd

from src.errors import InputError, brief


def paths_below(rows: pd.DataFrame, column: str, path: Path, setting: str) -> None:
    """Refuse a csv whose cells name files elsewhere.

    Args:
        rows: from `read_csv`.
        column: of relative paths.
        path: of the csv, for messages.
        setting: that names the folder.

    Raises:
        InputError: naming the first such row.
    """
    for number, name in zip(rows["row"], rows[column], strict=True):
        kinds = (PurePosixPath(name), PureWindowsPath(name))
        if any(kind.anchor for kind in kinds):
            raise InputError(
                f"{path}, row {number}: {brief(name)!r} is a full path. Write it as it is below {setting}."
            )
        if any(".." in kind.parts for kind in kinds):
            raise InputError(
                f"{path}, row {number}: {brief(name)!r} leads out of the folder. "
                f"Write a path below {setting}."
            )


def posix_paths(names: Iterable[str], root: Path, path: Path) -> tuple[list[str], list[str]]:
    """Write paths with / between folders, as Windows does not, and without a leading `./`.

    Args:
        names: cells that `paths_below` lets pass.
        root: folder that they are relative to; a name there that holds a backslash is left as it is.
        path: of the csv, for the note.

    Returns:
        The paths; how many of them Windows wrote.
    """
    names = list(names)
    written = [
        name if "\\" not in name or os.path.isfile(root / name) else PureWindowsPath(name).as_posix()  # noqa: PTH113
        for name in names
    ]
    changed = sum(new != name for new, name in zip(written, names, strict=True))
    notes = [f"paths of {path.name} with \\ in place of / in {changed} rows"] if changed else []
    return [str(PurePosixPath(name)) for name in written], notes


def no_link_out(paths: Iterable[Path], root: Path, setting: str) -> None:
    """Refuse links that lead out of a folder; the folder itself may be one, and links within it are taken.

    Args:
        paths: below the folder, there or not; what somebody typed may lie elsewhere.
        root: the folder.
        setting: that names it.

    Raises:
        InputError: naming the first such path, and where it leads.
    """
    home, plain = Path(os.path.realpath(root)), os.path.normpath(root)
    parents: dict[Path, Path | None] = {}
    for path in paths:
        if path.parent not in parents:
            below = Path(os.path.normpath(path)).is_relative_to(plain)
            parents[path.parent] = Path(os.path.realpath(path.parent)) if below else None
        parent = parents[path.parent]
        if parent is None:
            continue
        # os.path takes what no file system would: too long a name is no link.
        real = Path(os.path.realpath(path)) if os.path.islink(path) else parent / path.name  # noqa: PTH114
        if not real.is_relative_to(home):
            raise InputError(
                f"{path}: a link leads out of {root}, to {real}. Copy what it leads to, or set {setting} to "
                "a folder that holds everything."
            )
