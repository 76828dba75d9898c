"""What a bootstrap resamples: single units, parents of morphs, words of labels.

See docs/methods.md, section 6.2.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
from jaxtyping import Int

PARENTS = ("parent_a", "parent_b")
WORDS = ("race_word", "gender_word")


def weights(members: pd.DataFrame, draws: int, seed: int) -> Int[np.ndarray, "draws n"]:
    """How often each unit of a stratum stands in each bootstrap sample.

    Parts are drawn with replacement, as many as there are in the stratum: a unit's weight is how
    often it was drawn itself; a morph's is the product of its parents' counts; a phrase's the
    product of the counts of its race word among the race words and of its gender word among the
    gender words. Parts are those of this stratum. Rows of one name share a weight.

    Args:
        members: the units of one stratum: `name`; of morphs also `parent_a`, `parent_b` (null for a
            face that is none); of labels also `race_word`, `gender_word` (null or empty where a
            phrase has only one of them).
        draws: how many samples.
        seed: of the draw, which depends on it and on the names alone: two models on the same
            targets draw the same samples, in whatever order their rows are.

    Returns:
        int16.
    """
    names = members["name"].to_numpy(dtype=str)
    rng = generator(names, seed)
    if set(PARENTS) <= set(members.columns):
        # Whoever is no morph is a part of its own.
        pairs = [members[name].fillna(members["name"]).to_numpy(dtype=str) for name in PARENTS]
        parents, places = np.unique(pairs, return_inverse=True)
        first, second = places.reshape(2, -1)
        counts = _counts(rng, draws, len(parents))
        return counts[:, first] * np.where(first == second, 1, counts[:, second])
    if set(WORDS) <= set(members.columns):
        product = np.ones((draws, len(names)), dtype=np.int16)
        for name in WORDS:
            has = members[name].fillna("").to_numpy(dtype=str) != ""
            words, places = np.unique(members.loc[has, name].to_numpy(dtype=str), return_inverse=True)
            product[:, has] *= _counts(rng, draws, len(words))[:, places]
        return product
    single, places = np.unique(names, return_inverse=True)
    return _counts(rng, draws, len(single))[:, places]


def generator(names: np.ndarray, *seed: int) -> np.random.Generator:
    """Random numbers that hang on the names of units, in whatever order, and on seeds alone.

    Models, debias and texts that are shown the same units share them.
    """
    digest = hashlib.sha256("\0".join(np.unique(names)).encode()).digest()
    return np.random.default_rng([*seed, int.from_bytes(digest[:8], "little")])


def _counts(rng: np.random.Generator, draws: int, size: int) -> np.ndarray:
    # Products of two counts stay far below 2**15, and 20,000 words times 2,000 draws below 100 MB.
    counts = np.empty((draws, size), dtype=np.int16)
    for row in counts:
        row[:] = np.bincount(rng.integers(size, size=size), minlength=size)
    return counts
