"""Write a safetensors file row by row, so that vectors do not accumulate in memory."""

import fcntl
import json
import math
import os
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file

ALIGNMENT = 8  # the tensor starts at a multiple of this number of bytes
ROWS_PER_CHECK = 4096  # rows that are checked at a time, so that masks stay small


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
        # Under a lock, the first of several processes makes the file. To make it again would truncate it, and
        # so erase rows that others have written.
        with _locate_counts(path).open("ab") as counts:
            fcntl.flock(counts, fcntl.LOCK_EX)
            # Not `counts.tell()`, which is the size when this process opened the file, before it waited for
            # the lock.
            if not os.fstat(counts.fileno()).st_size:
                with path.open("wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header)
                    # Without reserved space, writing to the mapped file on a full disk would kill the process
                    # without a message.
                    if hasattr(os, "posix_fallocate"):
                        os.posix_fallocate(file.fileno(), 0, 8 + len(header) + size)
                    # Changes nothing where space is reserved; elsewhere it gives the file its size.
                    file.truncate(8 + len(header) + size)
                counts.write(bytes(shape[0]))  # this reserves space, too
        self.rows = np.memmap(path, dtype="<f4", mode="r+", offset=8 + len(header), shape=shape)
        self.write_counts = np.memmap(_locate_counts(path), dtype=np.uint8, mode="r+")

    def write(self, index: np.ndarray, vectors: np.ndarray) -> None:
        """Write vectors [b, ...] to the rows with indices `index` [b], none of them twice."""
        self.rows[index] = vectors
        self.write_counts[index] += 1


def finish_file(path: Path) -> list[int]:
    """Check a written `VectorFile`, remove its file of counts, and return its shape.

    Raises:
        RuntimeError: the file does not exist, or a row was not written or was written twice.
    """
    if not path.exists():
        raise RuntimeError(f"{path}: no vector was written")
    counts = np.fromfile(_locate_counts(path), dtype=np.uint8)
    for is_wrong, error in ((counts == 0, "never embedded"), (counts > 1, "embedded twice")):
        if is_wrong.any():
            raise RuntimeError(f"{path}: {int(is_wrong.sum())} rows were {error}")
    _locate_counts(path).unlink()
    with safe_open(path, framework="pt") as file:
        return list(file.get_slice("embedding").get_shape())


def find_nonfinite_rows(path: Path) -> list[int]:
    """Return the indices of the rows of a finished `VectorFile` that contain NaN or infinity."""
    chunks = torch.split(load_file(path)["embedding"].flatten(1), ROWS_PER_CHECK)
    is_finite = torch.cat([chunk.isfinite().all(dim=1) for chunk in chunks])
    return [int(row) for row in (~is_finite).nonzero()]


def _locate_counts(path: Path) -> Path:
    return path.with_suffix(".counts")
