"""Poems about faces compared group against group (docs/methods.md, section 6.10)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from src.errors import InputError, NotApplicable
from src.metrics import cles, interval, partition_cles, resampled_cles
from src.stimuli import Table
from src.studies.shared.group_comparison import partitions
from src.studies.shared.p_values import reached
from src.studies.shared.resampling import PARENTS, weights

# Of analyses.csv.
COLUMNS = (
    *("pool", "shared", "group_a", "group_b", "n_a", "n_b", "pool_size", "cles", "cles_gap"),
    *("cles_low", "cles_high", "p", "q", "tokens_a", "tokens_b", "most"),
)


def chosen(faces: Table, most: int | None, seed: int) -> pd.DataFrame:
    """The faces that poems are written about: so many of each group, drawn by seed.

    Args:
        faces: the stimuli.
        most: of each group; None: all.
        seed: of the draw; it hangs on it and on the group's place among all groups.

    Raises:
        InputError: a group has fewer than two faces.
        NotApplicable: there are fewer than two groups.
    """
    if len(faces.groups) < 2:
        raise NotApplicable(f"faces: poems are compared between groups, there is {faces.groups[0]!r} alone.")
    found = []
    for place, group in enumerate(faces.groups):
        own = faces.frame[faces.frame["group"] == group]
        if len(own) < 2:
            raise InputError(f"faces: 1 face of {group!r}; two of each group are needed. Add faces.")
        drawn = np.random.default_rng([seed, place]).permutation(len(own))[:most]
        found.append(own.iloc[np.sort(drawn)])
    return pd.concat(found, ignore_index=True)


def compare(
    faces: pd.DataFrame,
    scores: pd.DataFrame,
    sizes: Mapping[tuple[str, str], int],
    *,
    permutations: int,
    bootstrap: int,
    seed: int,
) -> pd.DataFrame:
    """CLES of each pair of groups by each pool's scores, with its null and its interval.

    Args:
        faces: `id` and, of morphs, their parents.
        scores: of the same faces, in their order: `id`, `group`, `tokens`, and of each pool a column.
        sizes: pool, and what was done with ids in both -> how many ids it holds; an empty one has no figures.
        permutations: random partitions of both groups' faces into the same sizes.
        bootstrap: samples of faces.
        seed: of both draws, which hang on it and on the faces' names alone.

    Returns:
        `COLUMNS` but for `most`, a row per pool and unordered pair of groups; `q` is p after Benjamini and
        Hochberg's procedure over all rows that have one.
    """
    parents = [column for column in PARENTS if column in faces]
    named = faces[["id", *parents]].rename(columns={"id": "name"})
    groups = {
        str(group): (own, weights(named.loc[own.index], bootstrap, seed))
        for group, own in scores.groupby("group", sort=True)
    }
    rows: list[dict[str, Any]] = []
    for (a, (of_a, weights_a)), (b, (of_b, weights_b)) in combinations(groups.items(), 2):
        members = partitions([*of_a["id"], *of_b["id"]], len(of_a), permutations, seed)
        shared = {"group_a": a, "group_b": b, "n_a": len(of_a), "n_b": len(of_b)}
        shared |= {"tokens_a": of_a["tokens"].mean(), "tokens_b": of_b["tokens"].mean()}
        for (pool, removed), size in sizes.items():
            row: dict[str, Any] = {"pool": pool, "shared": removed, **shared, "pool_size": size}
            if size:
                x, y = (own[[f"{pool}_{removed}"]].to_numpy(dtype=float) for own in (of_a, of_b))
                row |= _compared(x, y, members, weights_a, weights_b)
            rows.append(row)
    found = pd.DataFrame(rows).reindex(columns=[name for name in COLUMNS if name != "most"])
    p = found["p"].astype(float).dropna()
    q = pd.Series(false_discovery_control(p), p.index) if len(p) else p
    return found.assign(q=q.reindex(found.index)).sort_values(
        ["pool", "shared"], ascending=False, kind="stable"
    )


def _compared(
    x: np.ndarray, y: np.ndarray, members: np.ndarray, weights_a: np.ndarray, weights_b: np.ndarray
) -> dict[str, float]:
    observed = cles(x, y)
    null = np.abs(partition_cles(np.concatenate([x, y]), members) - 0.5)
    low, high = interval(resampled_cles(x, y, weights_a, weights_b))
    found = {"cles": observed, "cles_gap": abs(observed - 0.5), "cles_low": low, "cles_high": high}
    return found | ({"p": reached(null, found["cles_gap"])} if len(null) else {})
