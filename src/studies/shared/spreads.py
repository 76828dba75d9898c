"""Compute the spread between groups in intrinsic scores and in retrieval, before and after a change."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from src.metrics import jackknife
from src.studies.shared.target_jackknife import (
    TargetEstimate,
    covariance,
    hash_clusters,
    joint_deletions,
    transform,
)

MARGIN = 0.10  # largest relative change of a spread that counts as equivalent
NO_RATIO = jackknife.Ratio(math.nan, math.nan, math.nan, None)
# Verdicts on the share of a spread that is left.
REDUCED, INCREASED, EQUIVALENT = "reduced", "increased", "equivalent"
UNDECIDED, REFUSED = "undecided", "refused"
VERDICTS = (REDUCED, EQUIVALENT, UNDECIDED, INCREASED, REFUSED)


@dataclass(frozen=True)
class Spreads:
    """Spread over groups before and after directions are removed, and the share of it that is left.

    Attributes:
        before: SD over groups of their mean scores, without what the choice of targets adds; NaN without a
            jackknife.
        after: the same after.
        ratio: cross product of the centred group means after and before, divided by the squared spread
            before: 1 if the differences between groups stay as they were, 0 if nothing of them is left.
        df: degrees of freedom of its interval; None without a ratio.
        estimate: cross product and squared spread before, both divided by the latter; None without a ratio.
        reason: reason why there is no ratio; empty where there is one.
    """

    before: float = math.nan
    after: float = math.nan
    ratio: jackknife.Ratio = NO_RATIO
    df: int | None = None
    estimate: TargetEstimate | None = None
    reason: str = ""


def spreads(targets: pd.DataFrame, measure: str) -> Spreads:
    """Compute the spreads of a measure, `intrinsic` or `extrinsic`, over the strata, one per group.

    The targets are rows of `join_targets` with all scores; the jackknife leaves each cluster out of all
    groups at once. The mean square of the centred group means is too large by the variance that the choice
    of targets adds: the jackknife's is subtracted.
    """
    removed = joint_deletions(targets)
    if removed.reason:
        return Spreads(reason=f"no spread: {removed.reason} of a group's targets")
    scores = targets[[f"{measure}_before", f"{measure}_after"]].to_numpy(dtype=float)
    groups = [np.flatnonzero(targets["stratum"] == name) for name in sorted(targets["stratum"].unique())]

    def means(weights: np.ndarray) -> np.ndarray:
        """Compute the mean scores of each group, [subsamples, groups x 2]."""
        with np.errstate(invalid="ignore"):
            return np.hstack(
                [weights[:, rows] @ scores[rows] / weights[:, rows].sum(axis=1)[:, None] for rows in groups]
            )

    replicates = jackknife.replicate(removed, means)
    noise = replicates.covariance().reshape(len(groups), 2, len(groups), 2)
    if not np.isfinite(noise).all():
        return Spreads(reason="no spread: a cluster is all targets of a group")
    # What the choice of targets adds to the moments, [2, 2] of before and after: the trace over groups of the
    # centred covariance, divided by the number of groups.
    excess = (np.einsum("iaib->ab", noise) - noise.sum(axis=(0, 2)) / len(groups)) / len(groups)

    def products(group_means: np.ndarray) -> np.ndarray:
        """Compute the cross product of after and before, and both squared spreads, [subsamples, 3]."""
        centred = group_means.reshape(len(group_means), len(groups), 2)
        centred = centred - centred.mean(axis=1, keepdims=True)
        moments = np.einsum("gia,gib->gab", centred, centred) / len(groups) - excess
        return np.stack([moments[:, 0, 1], moments[:, 0, 0], moments[:, 1, 1]], axis=1)

    (values,) = products(means(np.ones((1, len(targets)))))
    before, after = np.sqrt(np.maximum(values[1:], 0))
    pair, of_pair = values[:2], transform(replicates, lambda each: products(each)[:, :2])
    ratio = ratio_of(pair, covariance(of_pair), removed.df)
    if math.isnan(ratio.value):
        reason = "no ratio: the squared spread before is below 3 of its standard errors"
        return Spreads(before, after, reason=reason)
    scaled = transform(of_pair, lambda each: each / pair[1])
    estimate = TargetEstimate(pair / pair[1], scaled, hash_clusters(targets))
    return Spreads(before, after, ratio, removed.df, estimate)


def ratio_of(
    pair: Float[np.ndarray, " 2"], covariance_of_pair: Float[np.ndarray, "2 2"], df: int
) -> jackknife.Ratio:
    """Compute the ratio of a cross product to a squared spread; none where the latter is not positive."""
    if pair[1] <= 0:
        return NO_RATIO
    return jackknife.compare_by_ratio(float(pair[0]), float(pair[1]), covariance_of_pair, df, MARGIN)


def verdict(ratio: jackknife.Ratio) -> str:
    """Return which of `VERDICTS` a ratio allows.

    An interval that includes 1 shows no equality: without a test of equivalence the verdict is `UNDECIDED`.
    A clear change that is smaller than the margin is a change: `is_equivalent` is true of it as well. Below
    -1, groups change sides and differ by more than before.

    >>> verdict(jackknife.Ratio(0.8, 0.6, 0.99, False)), verdict(jackknife.Ratio(0.8, 0.6, 1.01, False))
    ('reduced', 'undecided')
    """
    if ratio.is_equivalent is None:
        return REFUSED
    if ratio.low > -1 and ratio.high < 1:
        return REDUCED
    if ratio.low > 1 or ratio.high < -1:
        return INCREASED
    return EQUIVALENT if ratio.is_equivalent else UNDECIDED
