"""A number before and after debiasing, and all of them as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from src.studies.debiasing.job_pairs import Pair
from src.studies.shared.draws import interval

CLES, IAT, RHO, ACCURACY = "cles_gap", "iat", "rho", "accuracy"
# The spread over groups of what is measured (SC-EAT), and of what is retrieved.
INTRINSIC, OUTCOME = "spread_intrinsic", "spread_outcome"
COLUMNS = ["model", "debias", "measure", "exp", "attribute", "protocol", "seed", "before", "after"]
COLUMNS += ["difference", "ci_low", "ci_high", "ratio", "ratio_low", "ratio_high", "p_placebo"]
COLUMNS += ["chance_before", "chance_after", "n", "over", "config_before", "config_after", "reason"]
NOTHING = np.empty((2, 0))


@dataclass(frozen=True, eq=False)
class Change:
    """A number before and after debiasing.

    Attributes:
        pair: the two jobs.
        measure: which number.
        attribute: of an audit.
        values: before and after.
        draws: [2, R] the same of each bootstrap sample, the same samples before and after; R may be 0.
        chance: before and after, what chance alone gives: an audit's mean over random partitions, the mean of
            the placebo, the accuracy of guessing, the spread of groups that are alike (`spreads.Spread`).
        p_placebo: of a difference of rho, see `differences`.
        n: what is resampled: faces, targets, scenes.
        over: what the number is over: pairs of groups, analyses, or groups.
        reason: why something is lacking.
    """

    pair: Pair
    measure: str
    attribute: str = ""
    values: tuple[float, float] = (np.nan, np.nan)
    draws: np.ndarray = field(default_factory=lambda: NOTHING)
    chance: tuple[float, float] = (np.nan, np.nan)
    p_placebo: float = np.nan
    n: int = 0
    over: int = 0
    reason: str = ""


def table(found: Sequence[Change]) -> pd.DataFrame:
    """The changes as one tidy table, `COLUMNS`; a ratio of spreads only."""
    rows = []
    for one in found:
        before, after = one.values
        low, high = interval(one.draws[1], one.draws[0])
        row = {**one.pair.job, "debias": one.pair.debias, "measure": one.measure, "attribute": one.attribute}
        row |= {"before": before, "after": after, "difference": after - before, "ci_low": low}
        row |= {"ci_high": high, "p_placebo": one.p_placebo, "n": one.n, "over": one.over}
        row |= {"chance_before": one.chance[0], "chance_after": one.chance[1], "reason": one.reason}
        row |= {"config_before": one.pair.before, "config_after": one.pair.after}
        if one.measure in (INTRINSIC, OUTCOME) and before > 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = one.draws[1] / one.draws[0]
            low, high = interval(ratios, np.zeros(len(ratios)))
            row |= {"ratio": after / before, "ratio_low": low, "ratio_high": high}
        rows.append(row)
    return pd.DataFrame(rows).reindex(columns=COLUMNS)


def mean_of(series: Sequence[np.ndarray]) -> np.ndarray:
    """[R] mean of series of draws, draw by draw; none where they are not equally many."""
    if len({len(one) for one in series}) != 1:
        return np.empty(0)
    found: np.ndarray = np.mean(series, axis=0)
    return found


def stacked(both: Sequence[np.ndarray | pd.Series]) -> np.ndarray:
    """[2, R] draws before and after; `NOTHING` where they do not pair up."""
    if len({len(one) for one in both}) != 1:
        return NOTHING
    return np.stack([np.asarray(one, dtype=float) for one in both])


def means(rows: pd.DataFrame, column: str) -> tuple[float, float]:
    """Mean of a column of `pairs.joined`, before and after; NaN where one of its numbers is."""
    found = rows.reindex(columns=[f"{column}_before", f"{column}_after"]).astype(float)
    return two(found.mean(skipna=False).to_numpy())


def two(values: np.ndarray) -> tuple[float, float]:
    """Before and after as plain numbers."""
    return float(values[0]), float(values[1])
