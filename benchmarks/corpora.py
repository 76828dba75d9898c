"""Corpora of any size on disk: random unit vectors of six groups, and captions; neither means anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from src.studies.propagation.attributes import Pool

WIDTH, GROUPS, SET = 128, 6, 840
VECTORS, ROWS, OUTCOMES = "embedding.safetensors", "rows.npy", "outcomes.npy"
# Rows that are drawn at once.
CHUNK = 2**17
# Of captions: their words are stand-ins, some of them name a group or are of a taxonomy.
NAMED = ("woman", "man", "black", "asian", "white", "latino", "criminal", "doctor", "poor", "honest")
SAID, WORDS, SPOKEN = 10, 5000, 0.03


def write(place: Path, items: int) -> None:
    """Random unit vectors, row numbers and groups of a corpus, as files."""
    import numpy as np

    from src.embeddings.writer import VectorFile, finish

    rng = np.random.default_rng(0)
    file = VectorFile(place / VECTORS, (items, WIDTH))
    make = np.lib.format.open_memmap
    rows = make(place / ROWS, "w+", np.int64, (items,))
    outcomes = make(place / OUTCOMES, "w+", np.float64, (items, GROUPS))
    for start in range(0, items, CHUNK):
        own = np.arange(start, min(start + CHUNK, items))
        vectors = rng.standard_normal((len(own), WIDTH), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        file.write(own, vectors)
        rows[own] = own
        outcomes[own, own % GROUPS] = 1
    finish(place / VECTORS)


def mapped(place: Path, items: int, k: int) -> tuple[Tensor, Pool]:
    """The first items of a corpus on disk, and the pool of them all: six groups that share B."""
    import numpy as np
    from safetensors.torch import load_file

    from src.studies.propagation.attributes import Pool

    rng = np.random.default_rng(1)
    a = [rng.permutation(items // GROUPS)[:SET] * GROUPS + group for group in range(GROUPS)]
    b = rng.permutation(items)[:SET]
    rows, outcomes = (np.asarray(np.load(place / name, mmap_mode="c")[:items]) for name in (ROWS, OUTCOMES))
    return load_file(place / VECTORS)["embedding"][:items], Pool(rows, None, a, [b] * GROUPS, outcomes, k)


def captions(path: Path, count: int) -> None:
    """A Parquet file of captions of ten words."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    words = np.array([*NAMED, *(f"word{number}" for number in range(WORDS))])
    schema = pa.schema([("caption", pa.string())])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, count, CHUNK):
            shape = min(CHUNK, count - start), SAID
            codes = len(NAMED) + rng.integers(0, WORDS, shape)
            drawn = np.where(rng.random(shape) < SPOKEN, rng.integers(0, len(NAMED), shape), codes)
            texts = [" ".join(row) for row in words[drawn].tolist()]
            file.write_table(pa.table({"caption": texts}, schema=schema))
