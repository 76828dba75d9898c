"""Decode and resize pictures once, as bytes on disk, for all models with the same resizing."""

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
# Bytes of disk space to leave free after writing.
SPARE = 1 << 28


def load_resized(table: Table, split: Halves, store: Path) -> UInt8[np.ndarray, "n 3 height width"] | None:
    """Load the resized pictures of a table as bytes, in its order, memory-mapped from the store.

    An absent entry is built. Return None, with a warning, if the disk has no room for it.

    Raises:
        InputError: a picture cannot be read any more, or the folder cannot be written.
    """
    identity = identity_of(table, split)
    entry = store / cache.fingerprint(identity)
    paths = table.frame["path"].tolist()
    if not entry.exists() and not _has_room(math.prod(_shape(paths, split)), store):
        return None

    def build(folder: Path) -> Mapping[str, Any]:
        start, shape = time.perf_counter(), _shape(paths, split)
        rows = np.lib.format.open_memmap(folder / FILE, "w+", np.uint8, shape)

        def put(row: int) -> None:
            rows[row] = split.resized(read(paths[row]))

        # Pillow releases the interpreter lock while it decodes and resizes: threads suffice.
        with ThreadPoolExecutor() as pool:
            list(pool.map(put, range(len(paths))))  # raises the errors of the threads
        rows.flush()
        log.info("resized %d %s in %.1f s", len(paths), table.role, time.perf_counter() - start)
        return identity | {"role": table.role, "shape": shape}

    cache.fetch(store, entry.name, build)
    cache.touch(entry)
    pixels: np.ndarray = np.load(entry / FILE, mmap_mode="r")
    return pixels


def has_resized(table: Table, split: Halves, store: Path) -> bool:
    """Return whether the store holds the resized pictures of a table, intact."""
    return not cache.damaged(store / cache.fingerprint(identity_of(table, split)))


def identity_of(table: Table, split: Halves) -> dict[str, Any]:
    """Return what determines the bytes: the pictures in order, and the resizing."""
    digest = hashlib.sha256("\n".join(table.frame["sha256"]).encode()).hexdigest()
    return {"pictures": digest, "geometry": dict(split.geometry), "parts": declared("preprocessing")}


def read(path: str) -> Image.Image:
    """Read a picture of a table, in RGB.

    Raises:
        InputError: it cannot be read any more.
    """
    try:
        return pictures.read(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read any more ({error}).") from None


def _shape(paths: list[str], split: Halves) -> tuple[int, ...]:
    return len(paths), *split.resized(read(paths[0])).shape


def _has_room(needed: int, store: Path) -> bool:
    # Writing to a mapped file on a full disk would kill the process.
    existing = next(folder for folder in [store, *store.parents] if folder.exists())
    free = shutil.disk_usage(existing).free
    if free > needed + SPARE:
        return True
    log.warning(
        f"{store}: {free / 1e9:.1f} GB free, resized pictures take {needed / 1e9:.1f} GB: they are not "
        "stored, and each model resizes them again. Free disk space, or set store.pictures to another folder."
    )
    return False
