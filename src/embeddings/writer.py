"""A safetensors file that is filled row by row, so that vectors never gather in memory."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

ALIGNMENT = 8


class VectorFile:
    """One float32 tensor `embedding` of known shape, written in any order, by any number of processes.

    The format (an 8-byte little-endian length, a JSON header, the bytes) is safetensors'; its own
    library can only write tensors that are whole in memory.

    Args:
        path: of the file.
        shape: of the tensor.
        marks: file that holds a byte for each row: how often it was written, by whichever process; None
            where there is but one.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], marks: Path | None = None) -> None:
        self.path, self.shape = path, shape
        size = 4 * math.prod(shape)
        header = json.dumps(
            {"embedding": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, size]}}
        ).encode()
        header += b" " * (-len(header) % ALIGNMENT)
        # Of several processes the first makes the file, and those that come later find it whole: where a file
        # system cannot reserve room, zeros are written, and would fall upon rows of the first.
        with _alone(marks):
            if marks is None or not path.exists():
                _make(path, len(header).to_bytes(8, "little") + header, size)
        self.rows = np.memmap(path, dtype="<f4", mode="r+", offset=8 + len(header), shape=shape)
        self.written: np.ndarray = np.zeros(shape[0], dtype=np.uint8)
        if marks:
            self.written = np.memmap(marks, dtype=np.uint8, mode="r+")

    def write(self, index: np.ndarray, vectors: np.ndarray) -> None:
        """Put vectors [b, ...] into rows `index` [b]."""
        self.rows[index] = vectors
        self.written[index] += 1

    def close(self) -> list[int]:
        """Finish the file.

        Returns:
            The tensor's shape.

        Raises:
            RuntimeError: rows were left out or written twice, or hold NaN or infinity.
        """
        for times, said in ((self.written == 0, "never embedded"), (self.written > 1, "embedded twice")):
            if times.any():
                raise RuntimeError(f"{self.path}: {int(times.sum())} rows were {said}")
        if not all(np.isfinite(chunk).all() for chunk in np.array_split(self.rows, 64)):
            raise RuntimeError(f"{self.path}: vectors hold NaN or infinity")
        self.rows.flush()
        del self.rows
        return list(self.shape)


@contextmanager
def _alone(marks: Path | None) -> Iterator[None]:
    """The only one of the processes that share marks; one that dies leaves no lock."""
    with marks.open("rb") if marks else nullcontext() as file:
        if file:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(path: Path, header: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(header)
        # Of a file with holes the rows are mapped all the same: on a disk that is full, writing one would end
        # the process without a word.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, len(header) + size)
        file.truncate(len(header) + size)
