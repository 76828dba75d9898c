"""Build the random generators of simulated worlds."""

import zlib

import numpy as np


def generator(kind: object, number: int) -> np.random.Generator:
    """Return the random generator of a world; worlds of different kinds are independent.

    Args:
        kind: description of the kind of worlds.
        number: number of the world.
    """
    return np.random.default_rng([zlib.crc32(str(kind).encode()), number])
