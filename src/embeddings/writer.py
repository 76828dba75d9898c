"""Write a safetensors file row by row, so that vectors do not accumulate in memory."""

import fcntl
import json
import math
import os
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

ALIGNMENT = 8


class VectorFile:
    """File of a float32 tensor `embedding` of known shape; several processes may write its rows in any order.

    The file has the format of safetensors: an 8-byte little-endian length, a JSON header, and the bytes. The
    library of safetensors can only write tensors that are completely in memory. Until `finish_file`, a second
    file has one byte per row, which counts how often the row was written.
    """

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        size = 4 * math.prod(shape)
        tensor = {"dtype": "F32", "shape": list(shape), "data_offsets": [0, size]}
        header = json.dumps({"embedding": tensor}).encode()
        header += b" " * (-len(header) % ALIGNMENT)
        # Under a lock, the first of several processes makes the file. On a file system that cannot reserve
        # space, zeros are written instead, which could overwrite rows of another process without the lock.
        with _locate_counts(path).open("ab") as counts:
            fcntl.flock(counts, fcntl.LOCK_EX)
            if not counts.tell():
                with path.open("wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header)
                    # Without reserved space, writing to the mapped file on a full disk would kill the process
                    # without a message.
                    if hasattr(os, "posix_fallocate"):
                        os.posix_fallocate(file.fileno(), 0, 8 + len(header) + size)
                    file.truncate(8 + len(header) + size)
                counts.write(bytes(shape[0]))  # this reserves space, too
        self.rows = np.memmap(path, dtype="<f4", mode="r+", offset=8 + len(header), shape=shape)
        self.write_counts = np.memmap(_locate_counts(path), dtype=np.uint8, mode="r+")

    def write(self, index: np.ndarray, vectors: np.ndarray) -> None:
        """Write vectors [b, ...] to the rows with indices `index` [b]."""
        self.rows[index] = vectors
        self.write_counts[index] += 1


def finish_file(path: Path) -> list[int]:
    """Check a written `VectorFile`, remove its file of counts, and return its shape.

    Raises:
        RuntimeError: the file does not exist, or a row was not written, was written twice, or contains NaN or
            infinity.
    """
    if not path.exists():
        raise RuntimeError(f"{path}: no vector was written")
    counts = np.fromfile(_locate_counts(path), dtype=np.uint8)
    for is_wrong, error in ((counts == 0, "never embedded"), (counts > 1, "embedded twice")):
        if is_wrong.any():
            raise RuntimeError(f"{path}: {int(is_wrong.sum())} rows were {error}")
    vectors = load_file(path)["embedding"]
    if not all(chunk.isfinite().all() for chunk in vectors.chunk(64)):
        raise RuntimeError(f"{path}: vectors contain NaN or infinity")
    _locate_counts(path).unlink()
    return list(vectors.shape)


def _locate_counts(path: Path) -> Path:
    return path.with_suffix(".counts")
