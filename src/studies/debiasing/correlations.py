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
    hash_clusters,
    joint_deletions,
    transform,
)


@dataclass(frozen=True)
class RhoChange:
    """Change of the mean rho over analyses, and the p of equality.

    Attributes:
        p: two-sided p that rho is the same before and after; NaN without an estimate.
        estimate: the change, after less before; None where the jackknife is refused.
        reason: reason why it is; empty where it is not.
    """

    p: float = math.nan
    estimate: TargetEstimate | None = None
    reason: str = ""


def rho_change(targets: pd.DataFrame, rhos: np.ndarray, by_template: bool) -> RhoChange:
    """Estimate the change of the mean rho over strata; each cluster leaves all strata, before and after.

    Args:
        targets: rows of `join_targets`.
        rhos: mean rho before and after.
        by_template: whether rho is a mean over templates.
    """
    removed = joint_deletions(targets)
    if removed.reason:
        return RhoChange(reason=removed.reason)
    strata = [targets["stratum"], targets["template"]] if by_template else [targets["stratum"]]
    blocks = [*targets.reset_index(drop=True).groupby([each.to_numpy() for each in strata]).indices.values()]
    scores = [[targets[f"{each}_{when}"].to_numpy() for each in MEASURES] for when in ("before", "after")]

    def mean_rhos(weights: np.ndarray) -> np.ndarray:
        counts = weights.astype(np.int16)
        by_block = [
            [weighted_spearman(x[rows], y[rows], counts[:, rows]) for rows in blocks] for x, y in scores
        ]
        return np.asarray(np.mean(by_block, axis=1)).T

    replicates = replicate(removed, mean_rhos)
    transformed = fisher_transform(rhos)
    variance = replicates.variance(lambda each: fisher_transform(each[:, 1:]) - fisher_transform(each[:, :1]))
    if not np.isfinite(variance).all():
        return RhoChange(reason="ρ is undefined without one of the clusters")
    p = t_test(float(transformed[1] - transformed[0]), float(variance[0]), removed.df)
    change = transform(replicates, lambda each: each[:, 1:] - each[:, :1])
    return RhoChange(p, TargetEstimate(rhos[1:] - rhos[:1], change, hash_clusters(targets)))
