"""Draw closed families of parents, so that a corpus of morphs can be permuted by family.

See docs/methods.md, section 2, "Stimuli".
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from src.errors import InputError

PARENTS = 5  # parents of a family
FACES = PARENTS + math.comb(PARENTS, 2)  # the parents and the morphs of all their pairs


def count_families(parents: Mapping[str, int], per_group: int) -> dict[str, int]:
    """Count the whole families of each group, given its number of parents and its maximum number of faces.

    >>> count_families({"Asian Men": 52, "Black Men": 93}, 1000)
    {'Asian Men': 10, 'Black Men': 18}

    Raises:
        InputError: a group has too few parents, or `per_group` is too small, for one family.
    """
    if per_group < FACES:
        raise InputError(
            f"faces.per_group={per_group}: a family has {FACES} faces, {PARENTS} parents and the morphs of "
            f"their pairs. Set faces.per_group={FACES} or more, or faces.morphs=pairs."
        )
    small = [f"{group}: {count}" for group, count in sorted(parents.items()) if count < PARENTS]
    if small:
        raise InputError(
            f"faces.morphs=families: expected at least {PARENTS} parents in each group, one family; got "
            f"{'; '.join(small)}. Take more parents, leave the group out, or set faces.morphs=pairs."
        )
    return {group: min(count // PARENTS, per_group // FACES) for group, count in sorted(parents.items())}


def draw_families(
    groups: Mapping[str, Sequence[str]], per_group: int, seed: int
) -> dict[str, list[list[str]]]:
    """Draw the families of each group, each a sorted list of the ids of its parents.

    The draw of group i, in sorted order, uses the stream [seed, i]; the order of the ids is irrelevant. A
    smaller `per_group` gives the first of the same families.

    Raises:
        InputError: a group has too few parents, or `per_group` is too small, for one family.
    """
    counts = count_families({group: len(parents) for group, parents in groups.items()}, per_group)
    drawn = {}
    for index, (group, count) in enumerate(counts.items()):
        order = np.random.default_rng([seed, index]).permutation(len(groups[group]))
        shuffled = [sorted(groups[group])[place] for place in order]
        drawn[group] = [sorted(shuffled[n * PARENTS : (n + 1) * PARENTS]) for n in range(count)]
    return drawn
