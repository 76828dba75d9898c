"""Pictures decoded and resized once, as bytes on disk, for all models that resize them alike."""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from src.encoders.preprocessing import Halves
from src.errors import InputError
from src.stimuli import Table, pictures
from src.storage import cache
from src.storage.versions import declared

log = logging.getLogger(__name__)

FILE = "pixels.npy"
# Left free beside what is written, bytes.
SPARE = 1 << 28


def resized(table: Table, split: Halves, store: Path) -> UInt8[np.ndarray, "n 3 height width"] | None:
    """Bytes of a table's pictures, in its order, mapped from the store; made where it lacks them.

    Args:
        table: faces or scenes.
        split: how the library of a model prepares pictures.
        store: folder of the entries, of all models.

    Returns:
        The bytes; None where the disk has no room for them, and that is said.

    Raises:
        InputError: a picture cannot be read any more, or the folder cannot be written.
    """
    described = decisive(table, split)
    entry = store / cache.fingerprint(described)
    paths = table.frame["path"].tolist()
    if not entry.exists() and not _room(math.prod(_shape(paths, split)), store):
        return None

    def build(folder: Path) -> Mapping[str, Any]:
        start, shape = time.perf_counter(), _shape(paths, split)
        _fill(paths, split, np.lib.format.open_memmap(folder / FILE, "w+", np.uint8, shape))
        log.info("resized %d %s in %.1f s", len(paths), table.role, time.perf_counter() - start)
        return described | {"role": table.role, "shape": shape}

    cache.fetch(store, entry.name, build)
    cache.touch(entry)
    found: np.ndarray = np.load(entry / FILE, mmap_mode="r")
    return found


def stored(table: Table, split: Halves, store: Path) -> bool:
    """Whether a table's pictures lie resized in the store, intact."""
    return not cache.damaged(store / cache.fingerprint(decisive(table, split)))


def decisive(table: Table, split: Halves) -> dict[str, Any]:
    """All that decides the bytes: the pictures in their order, and how they are resized."""
    shown = hashlib.sha256("\n".join(table.frame["sha256"]).encode()).hexdigest()
    return {"pictures": shown, "geometry": dict(split.geometry), "parts": declared("preprocessing")}


def read(path: str) -> Image.Image:
    """A picture of a table, in RGB.

    Raises:
        InputError: it cannot be read any more.
    """
    try:
        return pictures.read(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read any more ({error}).") from None


def _shape(paths: list[str], split: Halves) -> tuple[int, ...]:
    return len(paths), *split.resized(read(paths[0])).shape


def _fill(paths: list[str], split: Halves, rows: np.memmap[Any, Any]) -> None:
    def put(row: int) -> None:
        rows[row] = split.resized(read(paths[row]))

    # Pillow decodes and resizes outside the interpreter's lock: threads are enough.
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(put, range(len(paths))):
            pass
    rows.flush()


def _room(needed: int, store: Path) -> bool:
    # A mapped file that meets a full disk ends the process: asked before, not found out.
    there = next(folder for folder in [store, *store.parents] if folder.exists())
    free = shutil.disk_usage(there).free
    if free > needed + SPARE:
        return True
    log.warning(
        "%s: %.1f GB free, resized pictures take %.1f GB: each model prepares them anew. Make room, or set "
        "store.pictures to another folder.",
        store,
        free / 1e9,
        needed / 1e9,
    )
    return False
