"""A safetensors file that is filled row by row, so that vectors never gather in memory."""

from __future__ import annotations

import json
import math
import os
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
        # Each of several processes makes the file: those that come later change not a byte of it.
        path.touch()
        with path.open("r+b") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            # Of a file with holes the rows are mapped all the same: on a disk that is full, writing one would
            # end the process without a word.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, 8 + len(header) + size)
            file.truncate(8 + len(header) + size)
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
