"""Decode and resize pictures once, and store their bytes for all models with the same resizing."""

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

from src.encoders.preprocessing import SplitPreprocessing
from src.errors import InputError
from src.stimuli import Table, pictures
from src.storage import cache
from src.storage.versions import declared_versions

log = logging.getLogger(__name__)

FILE = "pixels.npy"
# Bytes of disk space that must remain free after writing.
MIN_FREE_BYTES = 1 << 28


def load_resized(
    table: Table, preprocessing: SplitPreprocessing, store: Path
) -> UInt8[np.ndarray, "n 3 height width"] | None:
    """Load the resized pictures of a table as bytes, in its order, memory-mapped from the store.

    Pictures that are not stored are resized first. Returns None, with a warning, if the disk has too little
    space for them.

    Raises:
        InputError: a picture is no longer readable, or the folder is not writable.
    """
    identity = collect_identity(table, preprocessing)
    entry = store / cache.fingerprint(identity)
    paths = table.frame["path"].tolist()
    if not entry.exists() and not _has_room(math.prod(_compute_resized_shape(paths, preprocessing)), store):
        return None

    def build(folder: Path) -> Mapping[str, Any]:
        start, shape = time.perf_counter(), _compute_resized_shape(paths, preprocessing)
        rows = np.lib.format.open_memmap(folder / FILE, "w+", np.uint8, shape)

        def resize_row(row: int) -> None:
            rows[row] = preprocessing.resize(read(paths[row]))

        # Threads suffice, as Pillow releases the interpreter lock while it decodes and resizes.
        with ThreadPoolExecutor() as pool:
            list(pool.map(resize_row, range(len(paths))))  # re-raises errors of threads
        rows.flush()
        log.info("resized %d %s in %.1f s", len(paths), table.role, time.perf_counter() - start)
        return identity | {"role": table.role, "shape": shape}

    cache.fetch(store, entry.name, build)
    cache.touch(entry)
    pixels: np.ndarray = np.load(entry / FILE, mmap_mode="r")
    return pixels


def has_resized(table: Table, preprocessing: SplitPreprocessing, store: Path) -> bool:
    """Return whether the store has an intact entry of the resized pictures of a table."""
    return not cache.find_damage(store / cache.fingerprint(collect_identity(table, preprocessing)))


def collect_identity(table: Table, preprocessing: SplitPreprocessing) -> dict[str, Any]:
    """Return everything that determines the bytes: the pictures, their order, and the resizing."""
    digest = hashlib.sha256("\n".join(table.frame["sha256"]).encode()).hexdigest()
    return {
        "pictures": digest,
        "geometry": dict(preprocessing.geometry),
        "parts": declared_versions("preprocessing"),
    }


def read(path: str) -> Image.Image:
    """Read a picture of a table as RGB; raise `InputError` if it is no longer readable."""
    try:
        return pictures.read(path)
    except OSError as error:
        raise InputError(
            f"{path}: can no longer be read ({error}). Restore the file, and run the same command again."
        ) from None


def _compute_resized_shape(paths: list[str], preprocessing: SplitPreprocessing) -> tuple[int, ...]:
    return len(paths), *preprocessing.resize(read(paths[0])).shape


def _has_room(n_bytes: int, store: Path) -> bool:
    """Return whether a disk has space for resized pictures; warn if not.

    Writing to a mapped file on a full disk would kill the process.
    """
    existing = next(folder for folder in [store, *store.parents] if folder.exists())
    free = shutil.disk_usage(existing).free
    if free > n_bytes + MIN_FREE_BYTES:
        return True
    log.warning(
        f"{store}: {free / 1e9:.1f} GB free, resized pictures take {n_bytes / 1e9:.1f} GB: they are not "
        "stored, and each model resizes them again. Free disk space, or set store.pictures to another folder."
    )
    return False
