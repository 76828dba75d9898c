"""Decode and resize pictures once, and store their bytes for all models with the same resizing."""

import hashlib
import logging
import math
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from src.encoders.preprocessing import SplitPreprocessing
from src.errors import InputError
from src.stimuli import Table, pictures
from src.stimuli.perturbations import Perturbation
from src.storage import cache
from src.storage.versions import declared_versions

log = logging.getLogger(__name__)

FILE = "pixels.npy"
# Bytes of disk space that must remain free after writing.
MIN_FREE_BYTES = 1 << 28


@dataclass(frozen=True)
class PictureReader:
    """Reader of the pictures of a table, as an encoder sees them before its preprocessing."""

    paths: list[str]  # one per row of the table
    perturbation: Perturbation | None = None  # None: pictures as they are

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, row: int) -> Image.Image:
        """Read the picture of a row as RGB; raise `InputError` if it is no longer readable."""
        picture = read(self.paths[row])
        return self.perturbation.apply(picture, row) if self.perturbation else picture


def load_resized(
    table: Table,
    preprocessing: SplitPreprocessing,
    store: Path,
    perturbation: Perturbation | None = None,
) -> UInt8[np.ndarray, "n 3 height width"] | None:
    """Load the resized pictures of a table as bytes, in its order, memory-mapped from the store.

    Pictures that are not stored are resized first. Returns None, with a warning, if the disk has too little
    space for them.

    Raises:
        InputError: a picture is no longer readable, or the folder is not writable.
    """
    identity = collect_identity(table, preprocessing, perturbation)
    entry = store / cache.fingerprint(identity)
    reader = PictureReader(table.frame["path"].tolist(), perturbation)
    if not entry.exists() and not _has_room(math.prod(_compute_resized_shape(reader, preprocessing)), store):
        return None

    def build(folder: Path) -> Mapping[str, Any]:
        start, shape = time.perf_counter(), _compute_resized_shape(reader, preprocessing)
        rows = np.lib.format.open_memmap(folder / FILE, "w+", np.uint8, shape)

        def resize_row(row: int) -> None:
            rows[row] = preprocessing.resize(reader.read(row))

        # Threads suffice, as Pillow releases the interpreter lock while it decodes and resizes.
        with ThreadPoolExecutor() as pool:
            list(pool.map(resize_row, range(len(reader))))  # re-raises errors of threads
        rows.flush()
        log.info("resized %d %s in %.1f s", len(reader), table.role, time.perf_counter() - start)
        return identity | {"role": table.role, "shape": shape}

    cache.fetch(store, entry.name, build)
    cache.touch(entry)
    pixels: np.ndarray = np.load(entry / FILE, mmap_mode="r")
    return pixels


def has_resized(
    table: Table,
    preprocessing: SplitPreprocessing,
    store: Path,
    perturbation: Perturbation | None = None,
) -> bool:
    """Return whether the store has an intact entry of the resized pictures of a table."""
    identity = collect_identity(table, preprocessing, perturbation)
    return not cache.find_damage(store / cache.fingerprint(identity))


def collect_identity(
    table: Table, preprocessing: SplitPreprocessing, perturbation: Perturbation | None = None
) -> dict[str, Any]:
    """Return all that determines the bytes: the pictures, their order, perturbation and resizing."""
    digest = hashlib.sha256("\n".join(table.frame["sha256"]).encode()).hexdigest()
    identity = {
        "pictures": digest,
        "geometry": dict(preprocessing.geometry),
        "parts": declared_versions("preprocessing"),
    }
    return identity | ({"perturbation": perturbation.identity} if perturbation else {})


def read(path: str) -> Image.Image:
    """Read a picture of a table as RGB; raise `InputError` if it is no longer readable."""
    try:
        return pictures.read(path)
    except OSError as error:
        raise InputError(
            f"{path}: can no longer be read ({error}). Restore the file, and run the same command again."
        ) from None


def _compute_resized_shape(reader: PictureReader, preprocessing: SplitPreprocessing) -> tuple[int, ...]:
    return len(reader), *preprocessing.resize(reader.read(0)).shape


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
