"""List the entries of a store, and remove unfinished drafts, damaged entries and unused entries."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pandas as pd

from src.stimuli import PROMPTS, ROLES
from src.storage import cache

DAY = 86_400.0  # seconds
# Seconds since a draft was last written or touched, up to which a process may still be building it.
MAX_DRAFT_IDLE = 3_600.0


def list_entries(root: Path) -> pd.DataFrame:
    """List every entry of a store, or of all stores in a folder.

    Returns:
        A row per entry with the columns `entry` (path in `root`), `model`, `role`, `shape`, `bytes`, `used`
        (time of last use) and `state` (`intact`, or the damage).
    """
    rows = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        entry = Path(folder)
        if cache.MANIFEST not in files or not cache.ENTRY_NAME.fullmatch(entry.name):
            continue
        damage = cache.find_damage(entry)
        try:
            used = datetime.fromtimestamp((entry / cache.MANIFEST).stat().st_mtime)
            manifest = {} if damage else cache.read_manifest(entry)
        except FileNotFoundError:  # replaced or pruned meanwhile
            continue
        except ValueError:
            manifest, damage = {}, f"{cache.MANIFEST} changed while it was read"
        row = [str(entry.relative_to(root)), manifest.get("model", ""), manifest.get("role", "")]
        row += [" x ".join(map(str, manifest.get("shape", []))), _measure_size(entry)]
        rows.append([*row, used.strftime("%Y-%m-%d %H:%M"), damage or "intact"])
    return pd.DataFrame(rows, columns=["entry", "model", "role", "shape", "bytes", "used", "state"])


def prune(root: Path, unused_days: float | None, *, dry: bool = False) -> list[tuple[str, str, int]]:
    """Remove unfinished drafts, damaged entries and entries unused for more than `unused_days` (None: none).

    Entries are searched for in `root` and in its folders of roles and prompts. Folders with other names than
    those of a store are left alone. With `dry`, nothing is removed.

    Returns:
        (path in `root`, reason, bytes) of each removed entry, or of each entry to remove with `dry`.
    """
    removed, now = [], time.time()
    folders = [root, *(root / role for role in (*ROLES, PROMPTS))]
    for path in sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir()):
        is_hidden = cache.HIDDEN_NAME.fullmatch(path.name) is not None
        if not is_hidden and not cache.ENTRY_NAME.fullmatch(path.name):  # a store may be among other folders
            continue
        state, reason = cache.read_entry_state(path), ""
        if not state or not path.is_dir():
            continue
        if is_hidden:
            # A draft's files have the times of their last writes, its folder the time of the last touch.
            if (
                now - max((status.st_mtime for status in _iterate_statuses(path)), default=now)
                > MAX_DRAFT_IDLE
            ):
                reason = "left by a stopped process"
        else:
            try:
                idle_days = (now - (path / cache.MANIFEST).stat().st_mtime) / DAY
            except FileNotFoundError:  # no entry, or removed meanwhile
                continue
            if damage := cache.find_damage(path):
                reason = f"damaged: {damage}"
            elif unused_days is not None and idle_days > unused_days:
                reason = f"not used for {idle_days:.0f} days"
        size = _measure_size(path)
        if reason and (dry or cache.discard(path, state)):
            removed.append((str(path.relative_to(root)), reason, size))
    return removed


def _measure_size(folder: Path) -> int:
    return sum(status.st_size for status in _iterate_statuses(folder) if stat.S_ISREG(status.st_mode))


def _iterate_statuses(folder: Path) -> Iterator[os.stat_result]:
    """Yield the status of a folder, its subfolders and all files in them, except files deleted meanwhile."""
    for parent, _, files in os.walk(folder):
        for name in ("", *files):
            with suppress(FileNotFoundError):
                yield Path(parent, name).stat()
