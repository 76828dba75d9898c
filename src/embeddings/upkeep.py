"""What lies in a store, and what of it can go."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pandas as pd

from src import artifacts
from src.errors import InputError
from src.stimuli import ROLES

DAY = 86_400.0
# A draft that was written to within the last hour may be another process's work in progress.
IN_PROGRESS = 3_600.0


def listing(root: Path) -> pd.DataFrame:
    """Every entry below a folder.

    Args:
        root: a store, or a folder that holds stores.

    Returns:
        `entry` (its path below the root), `model`, `role`, `shape`, `bytes`, `used` (when last),
        `state` (`intact`, or what is wrong).

    Raises:
        InputError: there is no such folder.
    """
    rows = []
    for entry in sorted(path.parent for path in _existing(root).rglob(artifacts.MANIFEST)):
        if any(part.startswith(".") for part in entry.relative_to(root).parts):
            continue
        wrong = artifacts.damaged(entry)
        said = {} if wrong else artifacts.manifest(entry)
        used = datetime.fromtimestamp((entry / artifacts.MANIFEST).stat().st_mtime)
        rows.append(
            {
                "entry": str(entry.relative_to(root)),
                "model": said.get("model", ""),
                "role": said.get("role", ""),
                "shape": " x ".join(map(str, said.get("shape", []))),
                "bytes": _size(entry),
                "used": used.strftime("%Y-%m-%d %H:%M"),
                "state": wrong or "intact",
            }
        )
    return pd.DataFrame(rows, columns=["entry", "model", "role", "shape", "bytes", "used", "state"])


def prune(root: Path, unused_days: float | None, *, dry: bool = False) -> list[tuple[str, str, int]]:
    """Remove what no run will read.

    Args:
        root: a store, or a role of it. Stores within it (those of the pipeline) are left alone.
        unused_days: intact entries that were not used for so long go too; None: none of them.
        dry: remove nothing.

    Returns:
        Name, reason and bytes of each thing removed.

    Raises:
        InputError: there is no such folder.
    """
    found = []
    for path, reason in _removable(_existing(root), unused_days):
        found.append((str(path.relative_to(root)), reason, _size(path)))
        if not dry:
            shutil.rmtree(path)
    return found


def _removable(root: Path, unused_days: float | None) -> Iterator[tuple[Path, str]]:
    now = time.time()
    folders = [root, *(root / role for role in ROLES)]
    for path in sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir()):
        if not path.is_dir():
            continue
        if path.name.startswith("."):
            if now - max(part.stat().st_mtime for part in [path, *path.rglob("*")]) > IN_PROGRESS:
                yield path, "left by a process that was stopped"
        elif (path / artifacts.MANIFEST).is_file():
            wrong = artifacts.damaged(path)
            idle = (now - (path / artifacts.MANIFEST).stat().st_mtime) / DAY
            if wrong:
                yield path, f"damaged: {wrong}"
            elif unused_days is not None and idle > unused_days:
                yield path, f"not used for {idle:.0f} days"


def _existing(root: Path) -> Path:
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. Name the folder of a store.")
    return root


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
