"""Draw bootstrap weights of units by resampling their names (units or clusters), or parents of morphs.

See docs/methods.md, sections 6.7 and 6.8.
"""

import hashlib

import numpy as np
import pandas as pd
from jaxtyping import Int

from src.stimuli.clusters import PARENTS


def draw_weights(units: pd.DataFrame, draws: int, seed: int) -> Int[np.ndarray, "draws n"]:
    """Draw the weight of each unit in each bootstrap sample, [draws, n], int16.

    `units` has one row per unit, with a column `name` (of the unit or of its cluster); for morphs also
    `parent_a` and `parent_b` (null for a face that is not a morph).

    Each draw resamples the distinct names (for morphs: the distinct parents) with replacement, as many as
    there are. A unit's weight is the count of its name in the draw; a morph's is the product of its parents'
    counts. Rows of the same name share a weight. The draws depend only on seed and names, not on the order of
    rows: models with the same targets have the same samples.
    """
    names = units["name"].to_numpy(dtype=str)
    rng = create_generator(names, seed)
    if set(PARENTS) <= set(units.columns):
        # A face that is not a morph is its own single parent.
        parent_names = [units[column].fillna(units["name"]).to_numpy(dtype=str) for column in PARENTS]
        parents, positions = np.unique(parent_names, return_inverse=True)
        first, second = positions.reshape(2, -1)
        counts = _draw_counts(rng, draws, len(parents))
        return counts[:, first] * np.where(first == second, 1, counts[:, second])
    distinct, positions = np.unique(names, return_inverse=True)
    return _draw_counts(rng, draws, len(distinct))[:, positions]


def create_generator(names: np.ndarray, *seed: int) -> np.random.Generator:
    """Create a random generator, seeded by the seeds and by the set of unit names in any order.

    Models, debiasing methods and sets of words with the same units share its random numbers.
    """
    digest = hashlib.sha256("\0".join(np.unique(names)).encode()).digest()
    return np.random.default_rng([*seed, int.from_bytes(digest[:8], "little")])


def _draw_counts(rng: np.random.Generator, draws: int, size: int) -> np.ndarray:
    # int16 suffices for the product of two counts; 20,000 words x 2,000 draws take less than 100 MB.
    counts = np.empty((draws, size), dtype=np.int16)
    for row in counts:
        row[:] = np.bincount(rng.integers(size, size=size), minlength=size)
    return counts
