"""Reject paths and links that lead out of a data folder."""

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

import pandas as pd

from src.errors import InputError, brief


def check_paths(rows: pd.DataFrame, column: str, path: Path, setting: str) -> None:
    """Refuse a csv with absolute paths or paths that lead out of a folder, given by the setting `setting`."""
    for number, name in zip(rows["row"], rows[column], strict=True):
        forms = (PurePosixPath(name), PureWindowsPath(name))
        if any(form.anchor for form in forms):
            raise InputError(
                f"{path}, row {number}: {brief(name)!r} is a full path. Write it relative to {setting}."
            )
        if any(".." in form.parts for form in forms):
            raise InputError(f"{path}, row {number}: {brief(name)!r} leads out of {setting}. Correct it.")


def convert_to_posix(names: Iterable[str], root: Path, path: Path) -> tuple[list[str], list[str]]:
    """Convert relative paths with backslashes, as on Windows, to POSIX form; return them and a note.

    Paths of existing files are left unchanged, even with a backslash in a name.
    """
    names = list(names)
    posix_names = [
        name if "\\" not in name or os.path.isfile(root / name) else PureWindowsPath(name).as_posix()  # noqa: PTH113
        for name in names
    ]
    n_converted = sum(posix_name != name for posix_name, name in zip(posix_names, names, strict=True))
    notes = [f"paths of {path.name} with \\ in place of / in {n_converted} rows"] if n_converted else []
    return [str(PurePosixPath(name)) for name in posix_names], notes


def refuse_links_out(paths: Iterable[Path], root: Path, setting: str) -> None:
    """Refuse links that lead out of the folder `root`, which may itself be a link.

    Links within the folder are accepted, and so are paths outside of it, which a user typed. The message
    names the first refused path, its target, and the setting of the folder.
    """
    real_root, normalised_root = Path(os.path.realpath(root)), os.path.normpath(root)
    # Folder of a path -> the folder with links resolved; None if it is outside of `root`.
    real_folders: dict[Path, Path | None] = {}
    for path in paths:
        if path.parent not in real_folders:
            is_inside = Path(os.path.normpath(path)).is_relative_to(normalised_root)
            real_folders[path.parent] = Path(os.path.realpath(path.parent)) if is_inside else None
        real_folder = real_folders[path.parent]
        if real_folder is None:
            continue
        # os.path accepts names that Path methods refuse: a name too long for the file system is not a link.
        is_link = os.path.islink(path)  # noqa: PTH114
        real_path = Path(os.path.realpath(path)) if is_link else real_folder / path.name
        if not real_path.is_relative_to(real_root):
            raise InputError(
                f"{path}: a link leads out of {root}, to {real_path}. Copy the target, or set {setting}."
            )
