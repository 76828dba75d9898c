"""Which faces are morphed with which: pairs within a group, drawn without replacement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from src.errors import InputError

Pair = tuple[str, str]


def pairs(groups: Mapping[str, Sequence[str]], per_group: int, seed: int) -> dict[str, list[Pair]]:
    """Draw `per_group` of the n(n-1)/2 unordered pairs of each group.

    Args:
        groups: group -> ids of its faces, in any order, no id twice.
        per_group: how many pairs of each group.
        seed: of the draw: group i, of the groups in sorted order, has the stream [seed, i].

    Returns:
        Group -> its pairs, sorted; the two ids of a pair as well.

    Raises:
        InputError: a group has fewer pairs than are asked for.
    """
    _enough(groups, per_group)
    drawn = {}
    for index, group in enumerate(sorted(groups)):
        parents = sorted(groups[group])
        rng = np.random.default_rng([seed, index])
        chosen = np.sort(rng.choice(math.comb(len(parents), 2), per_group, replace=False))
        drawn[group] = [(parents[low], parents[high]) for low, high in map(_unranked, chosen.tolist())]
        drawn[group].sort()
    return drawn


def _unranked(rank: int) -> tuple[int, int]:
    # Pairs in the order (0, 1), (0, 2), (1, 2), (0, 3), ...: n faces' pairs come before the next face's.
    high = (1 + math.isqrt(1 + 8 * rank)) // 2
    return rank - math.comb(high, 2), high


def _enough(groups: Mapping[str, Sequence[str]], per_group: int) -> None:
    possible = {group: math.comb(len(parents), 2) for group, parents in sorted(groups.items())}
    short = [group for group in possible if possible[group] < per_group]
    if not short:
        return
    told = "; ".join(f"{group}: {len(groups[group])} faces, {possible[group]} pairs" for group in short)
    most = min(possible.values())
    remedy = (
        f"Set faces.per_group={most} or less, or take more parents."
        if most
        else "A morph needs two faces of its group: take more parents, or leave the group out."
    )
    raise InputError(f"faces.per_group={per_group}: too few pairs of parents ({told}). {remedy}")
