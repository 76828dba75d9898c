"""Fill a safetensors file row by row, so that vectors do not accumulate in memory."""

import fcntl
import json
import math
import os
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

ALIGNMENT = 8


class VectorFile:
    """File of a float32 tensor `embedding` of known shape; processes write its rows in any order.

    The format (an 8-byte little-endian length, a JSON header, the bytes) is that of safetensors, whose
    library can only write tensors that are completely in memory. Until `finish_file`, a second file counts,
    in one byte per row, how often the row was written.
    """

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        size = 4 * math.prod(shape)
        tensor = {"dtype": "F32", "shape": list(shape), "data_offsets": [0, size]}
        header = json.dumps({"embedding": tensor}).encode()
        header += b" " * (-len(header) % ALIGNMENT)
        # The first of several processes makes the file, under a lock: where the file system cannot reserve
        # space, zeros are written instead, which could overwrite rows of another process.
        with _counts_path(path).open("ab") as counts:
            fcntl.flock(counts, fcntl.LOCK_EX)
            if not counts.tell():
                with path.open("wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header)
                    # A file with holes can be mapped, but writing to a hole on a full disk would kill the
                    # process without a message.
                    if hasattr(os, "posix_fallocate"):
                        os.posix_fallocate(file.fileno(), 0, 8 + len(header) + size)
                    file.truncate(8 + len(header) + size)
                counts.write(bytes(shape[0]))  # no holes in this file either
        self.rows = np.memmap(path, dtype="<f4", mode="r+", offset=8 + len(header), shape=shape)
        self.write_counts = np.memmap(_counts_path(path), dtype=np.uint8, mode="r+")

    def write(self, index: np.ndarray, vectors: np.ndarray) -> None:
        """Write vectors [b, ...] to rows `index` [b]."""
        self.rows[index] = vectors
        self.write_counts[index] += 1


def finish_file(path: Path) -> list[int]:
    """Check a written `VectorFile`, remove its file of counts, and return its shape.

    Raises:
        RuntimeError: there is no file, a row was not written or written twice, or contains NaN or infinity.
    """
    if not path.exists():
        raise RuntimeError(f"{path}: no vector was written")
    counts = np.fromfile(_counts_path(path), dtype=np.uint8)
    for is_wrong, error in ((counts == 0, "never embedded"), (counts > 1, "embedded twice")):
        if is_wrong.any():
            raise RuntimeError(f"{path}: {int(is_wrong.sum())} rows were {error}")
    vectors = load_file(path)["embedding"]
    if not all(chunk.isfinite().all() for chunk in vectors.chunk(64)):
        raise RuntimeError(f"{path}: vectors hold NaN or infinity")
    _counts_path(path).unlink()
    return list(vectors.shape)


def _counts_path(path: Path) -> Path:
    return path.with_suffix(".counts")
