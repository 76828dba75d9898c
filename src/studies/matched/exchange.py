"""Exchange the groups of pictures within their sets (docs/methods.md, section 8.1)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.studies.matched.pool import Pool
from src.studies.shared.exchange_units import MIN_MOVABLE, MIN_PLACEMENTS, People, build_set_blocks
from src.studies.shared.resampling import create_generator

# Stream of random numbers of the permutations.
STREAM = 3


@dataclass(frozen=True)
class SetExchange:
    """Pictures that exchange their groups within sets.

    Attributes:
        group_of: [N], index of each picture's group.
        blocks: arrays [m, p, s] of pictures, see `build_set_blocks`: m times p people who change places, each
            with a picture in the same s sets.
        names: [N], ids of the pictures, which seed the random numbers.
    """

    group_of: np.ndarray
    blocks: tuple[np.ndarray, ...]
    names: np.ndarray

    @property
    def n_fixed(self) -> int:
        """Count the pictures that stay in place: of people whose combination of sets nobody else has."""
        return len(self.group_of) - sum(block.size for block in self.blocks)

    def draw(self, draws: int, seed: int, step: int) -> Iterator[np.ndarray]:
        """Draw permutations, at most `step` at a time; every call draws the same.

        Yields:
            The picture of the same set that each picture is replaced by in each permutation, [step, N]; the
            groups under the permutation are `group_of` of these.
        """
        generators = [
            create_generator(self.names, seed, STREAM, number) for number in range(len(self.blocks))
        ]
        for start in range(0, draws, step):
            count = min(step, draws - start)
            permuted = np.tile(np.arange(len(self.group_of), dtype=np.int32), (count, 1))
            for block, rng in zip(self.blocks, generators, strict=True):
                people = np.tile(np.arange(block.shape[1]), (count, len(block), 1))
                people = rng.permuted(people, axis=2)[:, :, :, None]
                permuted[:, block] = np.take_along_axis(block[None], people, axis=2)
            yield permuted

    def explain_missing_p(self, pictures: np.ndarray) -> str:
        """Explain why statistics of some pictures, a mask [N] of sets with all units, have no p; else ""."""
        log10_placements, movable = 0.0, 0
        for block in self.blocks:
            for people in block[pictures[block[:, 0, 0]]]:
                _, counts = np.unique(self.group_of[people], axis=0, return_counts=True)
                log_count = math.lgamma(len(people) + 1) - sum(math.lgamma(count + 1) for count in counts)
                log10_placements += log_count / math.log(10)
                movable += people.size if len(counts) > 1 else 0
        if movable < MIN_MOVABLE * pictures.sum():
            return "fewer than half of the pictures can change their group within sets"
        if log10_placements < math.log10(MIN_PLACEMENTS):
            return f"fewer than {MIN_PLACEMENTS:,} ways to exchange groups within sets"
        return ""


def build_exchange(pool: Pool) -> SetExchange:
    """Build the exchange of a pool: people who are in the same sets change places in all of them."""
    person, _ = pd.factorize(pool.persons, sort=True)
    blocks = build_set_blocks(People(person, pool.set_of, ()), np.ones(len(person), dtype=int))
    return SetExchange(pool.group_of, blocks, pool.ids)
