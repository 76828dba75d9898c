"""Compute the uncertainty of the change of rho by debiasing (docs/methods.md, section 6.11)."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.metrics import weighted_spearman
from src.metrics.jackknife import fisher_transform, replicate, t_test
from src.studies.shared.target_jackknife import (
    MEASURES,
    TargetEstimate,
    build_joint_subsamples,
    hash_clusters,
    transform,
)


@dataclass(frozen=True)
class RhoChange:
    """Change of the mean rho over analyses.

    Attributes:
        p: two-sided p of the hypothesis that rho is the same before and after; NaN without an estimate.
        estimate: the change, after less before; None if the jackknife is impossible.
        reason: reason why it is impossible; empty if it is not.
    """

    p: float = math.nan
    estimate: TargetEstimate | None = None
    reason: str = ""


def estimate_rho_change(targets: pd.DataFrame, rhos: np.ndarray, by_template: bool) -> RhoChange:
    """Estimate the change of the mean rho over strata; clusters leave all strata, before and after.

    Args:
        targets: rows of `join_targets`.
        rhos: mean rho before and after.
        by_template: whether rho is a mean over templates.
    """
    subsamples = build_joint_subsamples(targets)
    if subsamples.reason:
        return RhoChange(reason=subsamples.reason)
    keys = ["stratum", "template"] if by_template else ["stratum"]
    blocks = [*targets.reset_index(drop=True).groupby(keys).indices.values()]
    scores = [
        [targets[f"{measure}_{when}"].to_numpy() for measure in MEASURES] for when in ("before", "after")
    ]

    def compute_mean_rhos(weights: np.ndarray) -> np.ndarray:
        """Compute the mean rho before and after in each subsample, [subsamples, 2]."""
        counts = weights.astype(np.int16)
        by_block = [
            [weighted_spearman(x[rows], y[rows], counts[:, rows]) for rows in blocks] for x, y in scores
        ]
        return np.asarray(np.mean(by_block, axis=1)).T

    replicates = replicate(subsamples, compute_mean_rhos)
    transformed = fisher_transform(rhos)
    variance = replicates.variance(
        lambda pairs: fisher_transform(pairs[:, 1:]) - fisher_transform(pairs[:, :1])
    )
    if not np.isfinite(variance).all():
        return RhoChange(reason="ρ is undefined without one of the clusters")
    p = t_test(float(transformed[1] - transformed[0]), float(variance[0]), subsamples.df)
    change = transform(replicates, lambda pairs: pairs[:, 1:] - pairs[:, :1])
    return RhoChange(p, TargetEstimate(rhos[1:] - rhos[:1], change, hash_clusters(targets)))
