"""What lies in a store, and what of it can go."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pandas as pd

from src.errors import InputError
from src.stimuli import ROLES
from src.storage import cache

DAY = 86_400.0
# A draft that was written to, or touched, within the last hour may be another process's work in progress.
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
    for entry in _entries(_existing(root)):
        wrong = cache.damaged(entry)
        try:
            used = datetime.fromtimestamp((entry / cache.MANIFEST).stat().st_mtime)
            said = {} if wrong else cache.manifest(entry)
        except FileNotFoundError:  # replaced or pruned meanwhile
            continue
        except ValueError:
            said, wrong = {}, f"{cache.MANIFEST} changed while it was read"
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


def _entries(root: Path) -> Iterator[Path]:
    """Entries below a folder, in their order; what vanishes while it is looked at is passed over."""
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if cache.MANIFEST in files:
            yield Path(folder)


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
    for path, reason, seen in _removable(_existing(root), unused_days):
        size = _size(path)
        if dry or cache.discard(path, seen):
            found.append((str(path.relative_to(root)), reason, size))
    return found


def _removable(root: Path, unused_days: float | None) -> Iterator[tuple[Path, str, tuple[int, ...]]]:
    now = time.time()
    folders = [root, *(root / role for role in ROLES)]
    for path in sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir()):
        seen = cache.seen_as(path)
        if not seen or not path.is_dir():
            continue
        if path.name.startswith("."):
            if now - _written(path) > IN_PROGRESS:
                yield path, "left by a process that was stopped", seen
            continue
        try:
            idle = (now - (path / cache.MANIFEST).stat().st_mtime) / DAY
        except FileNotFoundError:  # no entry, or gone meanwhile
            continue
        if wrong := cache.damaged(path):
            yield path, f"damaged: {wrong}", seen
        elif unused_days is not None and idle > unused_days:
            yield path, f"not used for {idle:.0f} days", seen


def _written(draft: Path) -> float:
    """When a draft was last written to, or touched by who builds it."""
    times = []
    for folder, _, files in os.walk(draft):
        for path in (Path(folder), *(Path(folder) / name for name in files)):
            with suppress(FileNotFoundError):
                times.append(path.stat().st_mtime)
    return max(times, default=time.time())


def _existing(root: Path) -> Path:
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. Name the folder of a store.")
    return root


def _size(folder: Path) -> int:
    size = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                size += (Path(place) / name).stat().st_size
    return size
