"""Estimate the spread between groups in intrinsic scores and in retrieval, before and after debiasing."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from src.metrics import jackknife
from src.studies.shared.target_jackknife import (
    TargetEstimate,
    build_joint_subsamples,
    covariance,
    hash_clusters,
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
    """Spread between groups before and after debiasing, and the share of it that is left.

    Attributes:
        before: SD over groups of their mean scores before, corrected for the sampling of targets; NaN where
            the jackknife is undefined.
        after: SD over groups of their mean scores after, corrected in the same way.
        ratio: cross product of the centred group means before and after, divided by the squared spread
            before: 1 if the differences between groups stay as they were, 0 if nothing of them is left.
        df: degrees of freedom of the ratio's interval; None without a ratio.
        estimate: the cross product and the squared spread before, both divided by the latter; None without a
            ratio.
        reason: reason why the ratio is missing; empty if it is not.
    """

    before: float = math.nan
    after: float = math.nan
    ratio: jackknife.Ratio = NO_RATIO
    df: int | None = None
    estimate: TargetEstimate | None = None
    reason: str = ""


def estimate_spreads(targets: pd.DataFrame, measure: str) -> Spreads:
    """Estimate the spreads of a measure, `intrinsic` or `extrinsic`, over the groups (one stratum each).

    The targets are rows of `join_targets` without missing scores; the jackknife leaves each cluster out of
    all groups at once. The sampling of targets inflates the mean square of the centred group means; the
    jackknife's estimate of this excess is subtracted.
    """
    subsamples = build_joint_subsamples(targets)
    if subsamples.reason:
        return Spreads(reason=f"no spread: {subsamples.reason} of a group's targets")
    scores = targets[[f"{measure}_before", f"{measure}_after"]].to_numpy(dtype=float)
    groups = [np.flatnonzero(targets["stratum"] == name) for name in sorted(targets["stratum"].unique())]

    def means(weights: np.ndarray) -> np.ndarray:
        """Compute the mean scores of each group before and after, [subsamples, groups x 2]."""
        with np.errstate(invalid="ignore"):
            return np.hstack(
                [weights[:, rows] @ scores[rows] / weights[:, rows].sum(axis=1)[:, None] for rows in groups]
            )

    replicates = jackknife.replicate(subsamples, means)
    noise = replicates.covariance().reshape(len(groups), 2, len(groups), 2)
    if not np.isfinite(noise).all():
        return Spreads(reason="no spread: a cluster contains all targets of a group")
    # What the sampling of targets adds to the moments (before and after, [2, 2]): the trace over groups of
    # the covariance of the centred means, divided by the number of groups.
    excess = (np.einsum("iaib->ab", noise) - noise.sum(axis=(0, 2)) / len(groups)) / len(groups)

    def products(group_means: np.ndarray) -> np.ndarray:
        """Compute the cross product of before and after, and both squared spreads, [subsamples, 3]."""
        centred = group_means.reshape(len(group_means), len(groups), 2)
        centred = centred - centred.mean(axis=1, keepdims=True)
        moments = np.einsum("gia,gib->gab", centred, centred) / len(groups) - excess
        return np.stack([moments[:, 0, 1], moments[:, 0, 0], moments[:, 1, 1]], axis=1)

    (values,) = products(means(np.ones((1, len(targets)))))
    before, after = np.sqrt(np.maximum(values[1:], 0))
    # The ratio needs the cross product and the squared spread before.
    pair = values[:2]
    pair_replicates = transform(replicates, lambda group_means: products(group_means)[:, :2])
    ratio = compute_ratio(pair, covariance(pair_replicates), subsamples.df)
    if math.isnan(ratio.value):
        reason = "no ratio: the squared spread before is below 3 standard errors"
        return Spreads(before, after, reason=reason)
    scaled = transform(pair_replicates, lambda pairs: pairs / pair[1])
    estimate = TargetEstimate(pair / pair[1], scaled, hash_clusters(targets))
    return Spreads(before, after, ratio, subsamples.df, estimate)


def compute_ratio(
    pair: Float[np.ndarray, " 2"], covariance_of_pair: Float[np.ndarray, "2 2"], df: int
) -> jackknife.Ratio:
    """Compute the ratio of a cross product to a squared spread; `NO_RATIO` unless the latter is positive."""
    if pair[1] <= 0:
        return NO_RATIO
    return jackknife.compare_by_ratio(float(pair[0]), float(pair[1]), covariance_of_pair, df, MARGIN)


def classify_ratio(ratio: jackknife.Ratio) -> str:
    """Return the verdict, one of `VERDICTS`, on a ratio.

    An interval that includes 1 does not show equality: the verdict is `UNDECIDED` unless the test of
    equivalence succeeds. A clear change smaller than the margin counts as a change, although `is_equivalent`
    is true. Below -1, the differences between groups are reversed and larger than before.

    >>> ratios = [jackknife.Ratio(0.8, 0.6, high, False) for high in (0.99, 1.01)]
    >>> [classify_ratio(ratio) for ratio in ratios]
    ['reduced', 'undecided']
    """
    if ratio.is_equivalent is None:
        return REFUSED
    if ratio.low > -1 and ratio.high < 1:
        return REDUCED
    if ratio.low > 1 or ratio.high < -1:
        return INCREASED
    return EQUIVALENT if ratio.is_equivalent else UNDECIDED
