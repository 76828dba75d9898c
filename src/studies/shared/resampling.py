"""Draw bootstrap weights of units by resampling single units, or parents of morphs.

See docs/methods.md, sections 6.7 and 6.8.
"""

import hashlib

import numpy as np
import pandas as pd
from jaxtyping import Int

from src.stimuli.clusters import PARENTS


def weights(members: pd.DataFrame, draws: int, seed: int) -> Int[np.ndarray, "draws n"]:
    """Draw the weight of each unit of a stratum in each bootstrap sample, [draws, n], int16.

    `members` has a column `name`; for morphs also `parent_a` and `parent_b` (null for a face that is not a
    morph).

    Each draw resamples the distinct units of the stratum (for morphs: the distinct parents) with replacement,
    as many as there are. A unit's weight is its count in the draw; a morph's is the product of its parents'
    counts. Rows of the same name share a weight.
    The draw depends only on seed and names: models on the same targets draw the same samples, in any order of
    rows.
    """
    names = members["name"].to_numpy(dtype=str)
    rng = generator(names, seed)
    if set(PARENTS) <= set(members.columns):
        # A face that is not a morph counts as its single parent.
        pairs = [members[name].fillna(members["name"]).to_numpy(dtype=str) for name in PARENTS]
        parents, positions = np.unique(pairs, return_inverse=True)
        first, second = positions.reshape(2, -1)
        counts = _counts(rng, draws, len(parents))
        return counts[:, first] * np.where(first == second, 1, counts[:, second])
    distinct, positions = np.unique(names, return_inverse=True)
    return _counts(rng, draws, len(distinct))[:, positions]


def generator(names: np.ndarray, *seed: int) -> np.random.Generator:
    """Create a generator seeded by the set of unit names, in any order, and by seeds.

    Models, debias methods and texts with the same units share its random numbers.
    """
    digest = hashlib.sha256("\0".join(np.unique(names)).encode()).digest()
    return np.random.default_rng([*seed, int.from_bytes(digest[:8], "little")])


def _counts(rng: np.random.Generator, draws: int, size: int) -> np.ndarray:
    # Products of two counts stay far below 2**15, and 20,000 words times 2,000 draws below 100 MB.
    counts = np.empty((draws, size), dtype=np.int16)
    for row in counts:
        row[:] = np.bincount(rng.integers(size, size=size), minlength=size)
    return counts
