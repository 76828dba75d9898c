"""Compare the shares of retrieved groups with real shares (docs/methods.md, section 8.5)."""

import numpy as np

from src.studies.matched.retrieval_intervals import Intervals
from src.studies.shared.real_shares import judge


def compare_shares(real: np.ndarray, majorities: np.ndarray, intervals: Intervals) -> dict[str, np.ndarray]:
    """Build the columns of real shares, [W + 1, G] or, of the majority, [W + 1, 1].

    The last row has means over the captions with real shares; its excess has no interval if some have none.

    Args:
        real: [W, G], real shares; NaN for captions without.
        majorities: [W], index of the majority of each caption's subject; -1 for none.
        intervals: see `compute_share_intervals`; the last statistic is the share of the majority.
    """
    n_groups, is_real = real.shape[1], ~np.isnan(real).any(axis=1)
    shares, low, high = (
        values[:, :n_groups].clip(0, 1) for values in (intervals.estimates, intervals.low, intervals.high)
    )
    real_share = np.vstack([real, real[is_real].mean(axis=0)])
    excess = shares - real_share
    excess[-1] = excess[:-1][is_real].mean(axis=0)
    excess_low, excess_high = low - real_share, high - real_share
    if not is_real.all():
        excess_low[-1] = excess_high[-1] = np.nan
    has_majority = majorities >= 0
    of_majority = np.full(len(real) + 1, np.nan)
    of_majority[:-1][has_majority] = real[has_majority, majorities[has_majority]]
    if has_majority.any():
        of_majority[-1] = of_majority[:-1][has_majority].mean()
    amplification, *ends = (
        values[:, -1].clip(0, 1) - of_majority
        for values in (intervals.estimates, intervals.low, intervals.high)
    )
    verdicts = np.array([judge(*pair) for pair in zip(*ends, strict=True)], dtype=object)
    return {
        "real_share": real_share,
        "excess": excess,
        "excess_low": excess_low,
        "excess_high": excess_high,
        "amplification": amplification[:, None],
        "amplification_low": ends[0][:, None],
        "amplification_high": ends[1][:, None],
        "verdict": verdicts[:, None],
    }
