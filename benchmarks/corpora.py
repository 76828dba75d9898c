"""Write corpora of any size to disk: random unit vectors of items of six groups, and captions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from src.studies.propagation.attributes import Pool

# Width of the vectors, number of groups, and size of each attribute set.
WIDTH, GROUPS, SET_SIZE = 128, 6, 840
VECTORS, ROWS, OUTCOMES = "embedding.safetensors", "rows.npy", "outcomes.npy"
# Rows that are drawn at once.
CHUNK = 2**17
# Words that name a group or belong to a taxonomy. Other words of captions are "word0", "word1" and so on.
NAMED = ("woman", "man", "black", "asian", "white", "latino", "criminal", "doctor", "poor", "honest")
# Words of a caption, number of the other words, and probability of one of `NAMED`.
CAPTION_WORDS, WORDS, NAMED_SHARE = 10, 5000, 0.03


def write(folder: Path, items: int) -> None:
    """Write random unit vectors, row numbers and outcomes (group memberships) of a corpus to files."""
    import numpy as np

    from src.embeddings.writer import VectorFile, finish

    rng = np.random.default_rng(0)
    file = VectorFile(folder / VECTORS, (items, WIDTH))
    open_memmap = np.lib.format.open_memmap
    rows = open_memmap(folder / ROWS, "w+", np.int64, (items,))
    outcomes = open_memmap(folder / OUTCOMES, "w+", np.float64, (items, GROUPS))
    for start in range(0, items, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, items))
        vectors = rng.standard_normal((len(numbers), WIDTH), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        file.write(numbers, vectors)
        rows[numbers] = numbers
        outcomes[numbers, numbers % GROUPS] = 1
    finish(folder / VECTORS)


def load_mapped(folder: Path, items: int, k: int) -> tuple[Tensor, Pool]:
    """Map the first items of a corpus on disk; return their vectors and a pool of six groups that share B."""
    import numpy as np
    from safetensors.torch import load_file

    from src.studies.propagation.attributes import Pool

    rng = np.random.default_rng(1)
    a = [rng.permutation(items // GROUPS)[:SET_SIZE] * GROUPS + group for group in range(GROUPS)]
    b = rng.permutation(items)[:SET_SIZE]
    rows, outcomes = (np.asarray(np.load(folder / name, mmap_mode="c")[:items]) for name in (ROWS, OUTCOMES))
    return load_file(folder / VECTORS)["embedding"][:items], Pool(rows, None, a, [b] * GROUPS, outcomes, k)


def captions(path: Path, count: int) -> None:
    """Write a Parquet file of random captions of ten words each."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    words = np.array([*NAMED, *(f"word{number}" for number in range(WORDS))])
    schema = pa.schema([("caption", pa.string())])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, count, CHUNK):
            shape = min(CHUNK, count - start), CAPTION_WORDS
            others = len(NAMED) + rng.integers(0, WORDS, shape)
            indices = np.where(rng.random(shape) < NAMED_SHARE, rng.integers(0, len(NAMED), shape), others)
            texts = [" ".join(row) for row in words[indices].tolist()]
            file.write_table(pa.table({"caption": texts}, schema=schema))
