"""Exchange the groups of pictures within their sets (docs/methods.md, section 8.1)."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.studies.matched.pool import Pool
from src.studies.shared.exchange_units import MIN_MOVABLE, MIN_PLACEMENTS
from src.studies.shared.resampling import create_generator

# Stream of random numbers of the permutations.
STREAM = 3


@dataclass(frozen=True)
class SetExchange:
    """Pictures that exchange their groups within sets.

    Attributes:
        group_of: [N], index of each picture's group.
        blocks: arrays [m, c, s] of pictures: m units of c sets of s pictures; column j of a unit is one
            person, or a single picture where c is 1.
        names: [N], ids of the pictures, which seed the random numbers.
        n_fixed: number of sets that stay in place, as they share people but are not all of the same people.
    """

    group_of: np.ndarray
    blocks: tuple[np.ndarray, ...]
    names: np.ndarray
    n_fixed: int

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
                columns = np.tile(np.arange(block.shape[2]), (count, len(block), 1))
                columns = rng.permuted(columns, axis=2)[:, :, None]
                permuted[:, block] = np.take_along_axis(block[None], columns, axis=3)
            yield permuted

    def explain_missing_p(self, pictures: np.ndarray) -> str:
        """Explain why statistics of some pictures, a mask [N] of sets with all units, have no p; else ""."""
        log10_placements, movable = 0.0, 0
        for block in self.blocks:
            units = block[pictures[block[:, 0, 0]]]
            for members in self.group_of[units[:, 0]]:
                counts = np.bincount(members)
                log_count = math.lgamma(len(members) + 1) - sum(math.lgamma(count + 1) for count in counts)
                log10_placements += log_count / math.log(10)
            movable += units.size
        if movable < MIN_MOVABLE * pictures.sum():
            return "fewer than half of the pictures can change their group within sets"
        if log10_placements < math.log10(MIN_PLACEMENTS):
            return f"fewer than {MIN_PLACEMENTS:,} ways to exchange groups within sets"
        return ""


def build_exchange(pool: Pool) -> SetExchange:
    """Build the exchange of a pool: within each set or, where sets are of the same people, of people."""
    blocks: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
    n_fixed = 0
    for _, positions in pd.Series(np.arange(len(pool.units))).groupby(pool.units, sort=True):
        pictures = positions.to_numpy()
        sets = np.unique(pool.set_of[pictures])
        members = [pictures[pool.set_of[pictures] == number] for number in sets]
        grid = [rows[np.argsort(pool.persons[rows], kind="stable")] for rows in members]
        if len(sets) > 1 and not _are_same_people(pool, grid):
            n_fixed += len(sets)
            continue
        block = np.array(grid)
        blocks[block.shape].append(block)
    arrays = tuple(np.array(blocks[shape]) for shape in sorted(blocks))
    return SetExchange(pool.group_of, arrays, pool.ids, n_fixed)


def _are_same_people(pool: Pool, grid: list[np.ndarray]) -> bool:
    """Return whether all sets show the same people once each, each person with one group."""
    first = grid[0]
    return len({*pool.persons[first]}) == len(first) and all(
        np.array_equal(pool.persons[rows], pool.persons[first])
        and np.array_equal(pool.group_of[rows], pool.group_of[first])
        for rows in grid
    )
