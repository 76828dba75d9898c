"""Estimate statistics of the targets that two jobs share (docs/methods.md, section 6.11)."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from src.metrics.jackknife import Replicates, Subsamples
from src.studies.shared.cluster_jackknife import build_subsamples, list_cluster_columns

KEYS = ("stratum", "id", "template")  # columns that identify a row of targets.parquet
MEASURES = ("intrinsic", "extrinsic")
SCORES = [f"{measure}_{when}" for measure in MEASURES for when in ("before", "after")]


@dataclass(frozen=True)
class TargetEstimate:
    """Statistics of targets, with their jackknife replicates.

    Attributes:
        values: statistics, [T].
        replicates: statistics of each subsample, [G, T].
        clusters_hash: hash of the clusters; estimates with equal hashes share their subsamples.
    """

    values: np.ndarray
    replicates: Replicates
    clusters_hash: str


def join_targets(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Join the targets of two jobs; return the shared ones, with `SCORES` and the clusters.

    `before` and `after` are the jobs' targets.parquet; without a column `id` (a job without targets) the
    result is empty.
    """
    if "id" not in before or "id" not in after:
        return pd.DataFrame(columns=["stratum", "id", *SCORES])
    keys = [name for name in KEYS if name in before and name in after]
    return before.merge(after[[*keys, *MEASURES]], on=keys, suffixes=("_before", "_after"))


def has_clusters(targets: pd.DataFrame) -> bool:
    """Return whether the targets have columns of clusters; older versions wrote none."""
    return bool(list_cluster_columns(targets))


def build_joint_subsamples(targets: pd.DataFrame) -> Subsamples:
    """Build the jackknife's subsamples, each of which leaves a cluster out of all strata at once.

    The degrees of freedom are those of the stratum with the fewest clusters; a stratum with too few clusters
    gives the result its `reason`.
    """
    by_stratum = [build_subsamples(rows) for _, rows in targets.groupby("stratum")]
    reason = next((subsamples.reason for subsamples in by_stratum if subsamples.reason), "")
    df = min(subsamples.df for subsamples in by_stratum)
    return replace(build_subsamples(targets), df=df, reason=reason)


def hash_clusters(targets: pd.DataFrame) -> str:
    """Hash the distinct clusters of targets; the order of rows does not matter."""
    columns = list_cluster_columns(targets)
    distinct = targets[columns].astype(str).drop_duplicates()
    row_hashes = np.sort(pd.util.hash_pandas_object(distinct, index=False).to_numpy())
    return hashlib.sha256("\0".join(columns).encode() + row_hashes.tobytes()).hexdigest()


def transform(replicates: Replicates, function: Callable[[np.ndarray], np.ndarray]) -> Replicates:
    """Apply a function from [G, S] to [G, T] to the statistics of the subsamples."""
    ways = tuple((sign, function(statistics)) for sign, statistics in replicates.ways)
    return replace(replicates, ways=ways, cells=function(replicates.cells))


def covariance(replicates: Replicates) -> Float[np.ndarray, "t t"]:
    """Compute the jackknife covariance of the statistics, with the covariance over the cells as lower bound.

    Where clusters cross, the estimated variance of a linear combination of statistics may be too small or
    even negative. Negative eigenvalues of the difference from the covariance over the cells are set to 0; for
    a single statistic, the result is the larger of both variances. NaN where the jackknife is undefined.
    """
    covariance_of_clusters = replicates.covariance()
    covariance_of_cells = replace(replicates, ways=((1, replicates.cells),)).covariance()
    if not np.isfinite(covariance_of_clusters).all():
        return covariance_of_clusters
    eigenvalues, eigenvectors = np.linalg.eigh(covariance_of_clusters - covariance_of_cells)
    excess = (eigenvectors * np.maximum(eigenvalues, 0)) @ eigenvectors.T
    return np.asarray(covariance_of_cells + excess)


def average_estimates(estimates: Sequence[TargetEstimate]) -> tuple[np.ndarray, np.ndarray, int]:
    """Average estimates of T statistics each.

    Estimates on the same clusters are averaged subsample by subsample; estimates on different clusters count
    as independent.

    Returns:
        The means [T], their covariance [T, T] and the smallest degrees of freedom.
    """
    by_clusters: dict[str, list[Replicates]] = {}
    for estimate in estimates:
        by_clusters.setdefault(estimate.clusters_hash, []).append(estimate.replicates)
    total = sum(
        (len(group) / len(estimates)) ** 2 * covariance(_average_replicates(group))
        for group in by_clusters.values()
    )
    df = min(estimate.replicates.df for estimate in estimates)
    return np.mean([estimate.values for estimate in estimates], axis=0), np.asarray(total), df


def _average_replicates(group: Sequence[Replicates]) -> Replicates:
    ways = zip(*(replicates.ways for replicates in group), strict=True)
    mean_ways = tuple((way[0][0], np.mean([statistics for _, statistics in way], axis=0)) for way in ways)
    mean_cells = np.mean([replicates.cells for replicates in group], axis=0)
    reason = next((replicates.reason for replicates in group if replicates.reason), "")
    return replace(group[0], ways=mean_ways, cells=mean_cells, reason=reason)
