"""Estimate statistics of the targets that two jobs share, by the jackknife (docs/methods.md, 6.11)."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from src.metrics.jackknife import Deletions, Replicates
from src.studies.shared.cluster_jackknife import WAYS, deletions

KEYS = ("stratum", "id", "template")  # columns that identify a row of targets.parquet
MEASURES = ("intrinsic", "extrinsic")
SCORES = [f"{measure}_{when}" for measure in MEASURES for when in ("before", "after")]


@dataclass(frozen=True)
class TargetEstimate:
    """Statistics of targets, with their jackknife replicates.

    Attributes:
        values: [T] the statistics.
        replicates: the statistics without one cluster each, [G, T].
        clusters: hash of the clusters; equal hashes mean that the same clusters leave together.
    """

    values: np.ndarray
    replicates: Replicates
    clusters: str


def join_targets(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the targets of two jobs, with `SCORES` and the clusters.

    The arguments are targets.parquet of each job; the table of a job without targets has no column `id`.
    """
    if "id" not in before or "id" not in after:
        return pd.DataFrame(columns=["stratum", "id", *SCORES])
    keys = [name for name in KEYS if name in before and name in after]
    return before.merge(after[[*keys, *MEASURES]], on=keys, suffixes=("_before", "_after"))


def have_clusters(targets: pd.DataFrame) -> bool:
    """Return whether targets have clusters; those of jobs of older versions have none."""
    return bool({*WAYS} & {*targets.columns})


def joint_deletions(targets: pd.DataFrame) -> Deletions:
    """Return subsamples, each without one part of the clusters in all strata at once.

    Degrees of freedom are those of the stratum with the fewest clusters; too few clusters in any stratum are
    too few.
    """
    by_stratum = [deletions(rows) for _, rows in targets.groupby("stratum")]
    reason = next((each.reason for each in by_stratum if each.reason), "")
    return replace(deletions(targets), df=min(each.df for each in by_stratum), reason=reason)


def hash_clusters(targets: pd.DataFrame) -> str:
    """Hash the distinct clusters of targets, in any order."""
    names = [name for name in WAYS if name in targets]
    ways = targets[names].astype(str).drop_duplicates()
    rows = np.sort(pd.util.hash_pandas_object(ways, index=False).to_numpy())
    return hashlib.sha256("\0".join(names).encode() + rows.tobytes()).hexdigest()


def transform(replicates: Replicates, function: Callable[[np.ndarray], np.ndarray]) -> Replicates:
    """Apply a function, [G, S] to [G, T], to the statistics of each subsample."""
    ways = tuple((sign, function(statistics)) for sign, statistics in replicates.ways)
    return replace(replicates, ways=ways, cells=function(replicates.cells))


def covariance(replicates: Replicates) -> Float[np.ndarray, "t t"]:
    """Compute the covariance of statistics, never below that over the cells.

    Where clusters cross, the variance of a combination may be estimated as too small, or as negative: what
    the covariance lacks to that over the cells is added. Of a single statistic: the larger variance.
    """
    total = replicates.covariance()
    of_cells = replace(replicates, ways=((1, replicates.cells),)).covariance()
    if not np.isfinite(total).all():
        return total
    excess, axes = np.linalg.eigh(total - of_cells)
    return np.asarray(of_cells + (axes * np.maximum(excess, 0)) @ axes.T)


def pool(estimates: Sequence[TargetEstimate]) -> tuple[np.ndarray, np.ndarray, int]:
    """Average estimates; clusters leave all estimates with the same clusters at once.

    Estimates with other clusters count as independent.

    Returns:
        The means [T], their covariance [T, T] and the smallest degrees of freedom.
    """
    by_clusters: dict[str, list[Replicates]] = {}
    for estimate in estimates:
        by_clusters.setdefault(estimate.clusters, []).append(estimate.replicates)
    total = sum(
        (len(group) / len(estimates)) ** 2 * covariance(_mean(group)) for group in by_clusters.values()
    )
    df = min(estimate.replicates.df for estimate in estimates)
    return np.mean([estimate.values for estimate in estimates], axis=0), np.asarray(total), df


def _mean(group: Sequence[Replicates]) -> Replicates:
    ways = zip(*(replicates.ways for replicates in group), strict=True)
    means = tuple((way[0][0], np.mean([statistics for _, statistics in way], axis=0)) for way in ways)
    reason = next((replicates.reason for replicates in group if replicates.reason), "")
    return replace(group[0], ways=means, cells=np.mean([each.cells for each in group], axis=0), reason=reason)
