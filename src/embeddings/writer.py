"""A safetensors file that is filled row by row, so that vectors never gather in memory."""

from __future__ import annotations

import fcntl
import json
import math
import os
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

ALIGNMENT = 8


class VectorFile:
    """One float32 tensor `embedding` of known shape, written in any order, by any number of processes.

    The format (an 8-byte little-endian length, a JSON header, the bytes) is safetensors'; its own
    library can only write tensors that are whole in memory. Until `finish` another file counts in a byte
    for each row how often the row was written, by whichever process.

    Args:
        path: of the file.
        shape: of the tensor.
    """

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        size = 4 * math.prod(shape)
        header = json.dumps(
            {"embedding": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, size]}}
        ).encode()
        header += b" " * (-len(header) % ALIGNMENT)
        # Of several processes the first makes the file, and those that come later find it whole: where a file
        # system cannot reserve room, zeros are written, and would fall upon rows of the first.
        with _counts(path).open("ab") as counts:
            fcntl.flock(counts, fcntl.LOCK_EX)
            if not counts.tell():
                _make(path, len(header).to_bytes(8, "little") + header, size)
                counts.write(bytes(shape[0]))  # no holes here either
        self.rows = np.memmap(path, dtype="<f4", mode="r+", offset=8 + len(header), shape=shape)
        self.written = np.memmap(_counts(path), dtype=np.uint8, mode="r+")

    def write(self, index: np.ndarray, vectors: np.ndarray) -> None:
        """Put vectors [b, ...] into rows `index` [b]."""
        self.rows[index] = vectors
        self.written[index] += 1


def finish(path: Path) -> list[int]:
    """Check a written `VectorFile` and return its shape; the counts of its rows are removed.

    Raises:
        RuntimeError: nothing was written, rows were left out or written twice, or hold NaN or infinity.
    """
    if not path.exists():
        raise RuntimeError(f"{path}: no vector was written")
    written = np.fromfile(_counts(path), dtype=np.uint8)
    for times, error in ((written == 0, "never embedded"), (written > 1, "embedded twice")):
        if times.any():
            raise RuntimeError(f"{path}: {int(times.sum())} rows were {error}")
    rows = load_file(path)["embedding"]
    if not all(chunk.isfinite().all() for chunk in rows.chunk(64)):
        raise RuntimeError(f"{path}: vectors hold NaN or infinity")
    _counts(path).unlink()
    return list(rows.shape)


def _counts(path: Path) -> Path:
    return path.with_suffix(".counts")


def _make(path: Path, header: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(header)
        # Of a file with holes the rows are mapped all the same: on a disk that is full, writing one would end
        # the process without a word.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, len(header) + size)
        file.truncate(len(header) + size)
