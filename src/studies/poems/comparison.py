"""Compare poems about faces between groups (docs/methods.md, section 6.10)."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from src.errors import InputError, NotApplicable
from src.metrics import benjamini_hochberg, cles, interval, partition_cles, permutation_p, resampled_cles
from src.stimuli import Table
from src.studies.shared.group_comparison import partitions
from src.studies.shared.resampling import weights

# Columns of analyses.csv; `most` of the task is added last. `shared`: treatment of tokens in both pools.
COLUMNS = (
    *("pool", "shared", "group_a", "group_b", "n_a", "n_b", "pool_size", "cles", "cles_gap"),
    *("cles_low", "cles_high", "p", "q", "tokens_a", "tokens_b"),
)


def draw_faces(faces: Table, per_group: int | None, seed: int) -> pd.DataFrame:
    """Draw by seed the faces to write poems about, at most `per_group` of each group (None: all).

    Raise `InputError` for a group with a single face, and `NotApplicable` for a dataset with a single group.
    """
    if len(faces.groups) < 2:
        raise NotApplicable(f"faces: all are of group {faces.groups[0]!r}. Use a dataset with more groups.")
    samples = []
    for index, group in enumerate(faces.groups):
        group_rows = faces.frame[faces.frame["group"] == group]
        if len(group_rows) < 2:
            raise InputError(f"faces: 1 face of {group!r}; each group needs at least 2. Add faces.")
        order = np.random.default_rng([seed, index]).permutation(len(group_rows))[:per_group]
        samples.append(group_rows.iloc[np.sort(order)])
    return pd.concat(samples, ignore_index=True)


def compare(
    faces: pd.DataFrame,
    scores: pd.DataFrame,
    sizes: Mapping[tuple[str, str], int],
    *,
    permutations: int,
    bootstrap: int,
    seed: int,
) -> pd.DataFrame:
    """Compute the CLES of each pair of groups for each pool, with its permutation p and its interval.

    `faces` has `id` and, for morphs, the parents. `scores` has the same faces in the same order: `id`,
    `group`, `tokens`, and a column of scores per pool ("positive_removed"). `sizes` maps each pool to its
    number of token ids; an empty pool has no CLES. Random draws depend only on the seed and the faces' ids.

    Returns:
        `COLUMNS`, a row per pool and unordered pair of groups; `q` is Benjamini and Hochberg's over all `p`.
    """
    units = faces.assign(name=faces["id"])
    groups = {
        str(group): (group_rows, weights(units.loc[group_rows.index], bootstrap, seed))
        for group, group_rows in scores.groupby("group", sort=True)
    }
    rows: list[dict[str, Any]] = []
    for (a, (scores_a, weights_a)), (b, (scores_b, weights_b)) in combinations(groups.items(), 2):
        members = partitions([*scores_a["id"], *scores_b["id"]], len(scores_a), permutations, seed)
        pair_columns = {"group_a": a, "group_b": b, "n_a": len(scores_a), "n_b": len(scores_b)}
        pair_columns |= {"tokens_a": scores_a["tokens"].mean(), "tokens_b": scores_b["tokens"].mean()}
        for (pool, shared), size in sizes.items():
            row: dict[str, Any] = {"pool": pool, "shared": shared, **pair_columns, "pool_size": size}
            if size:
                x, y = (table[[f"{pool}_{shared}"]].to_numpy(dtype=float) for table in (scores_a, scores_b))
                row["cles"] = cles(x, y)
                row["cles_gap"] = abs(row["cles"] - 0.5)
                row["cles_low"], row["cles_high"] = interval(resampled_cles(x, y, weights_a, weights_b))
                if permutations:
                    null = np.abs(partition_cles(np.concatenate([x, y]), members) - 0.5)
                    row["p"] = permutation_p(null, row["cles_gap"])
            rows.append(row)
    analyses = pd.DataFrame(rows).reindex(columns=COLUMNS)
    analyses["q"] = benjamini_hochberg(analyses["p"])
    return analyses.sort_values(["pool", "shared"], ascending=False, kind="stable")
