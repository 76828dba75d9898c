"""Measure how often a spread between groups is shown to be equivalent, or reduced, after a known change."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import Ratio
from src.studies.shared.spreads import MARGIN, estimate_spreads
from validation.calibration import bounds
from validation.calibration.bounds import generator
from validation.calibration.populations import Population, populations, ways_of

# Populations, with a spread that is measured precisely, and one without a ratio in about half of the samples.
SPREADS = {
    "300 persons a group": (3.0, 0.25),
    "200 morphs of 30 parents a group": (8.0, 0.8),
    "labels 36 × 24, both words count": (10.0, 1.5),
}
# Limits of shares, by their columns.
Limits = Mapping[str, tuple[float, float]]
# Size of the differences that debiasing adds in another direction, relative to the spread before.
ADDED = 0.3
FALSE_EQUIVALENCE, FALSE_REDUCTION, COVERED, POWER = (0, 0.05), (0, 0.025), (0.95, 1), (0.9, 1)


@dataclass(frozen=True)
class Kind:
    """Targets before and after a change of the groups' differences.

    Attributes:
        population: population of the targets, whose scores in two models are added to the group means.
        spread: SD over groups of their means before.
        ratio: share of the differences that is left.
        limits: limits of the shares that `tabulate` computes.
    """

    population: Population
    spread: float
    ratio: float
    limits: Limits


def kinds() -> list[Kind]:
    """Return kinds with equal groups, a weak spread, and precise spreads with ratios in and at the margin."""
    by_name = {population.name: population for population in populations()}
    changed = {"coverage": COVERED, "share_equivalent": FALSE_EQUIVALENCE}
    same = {"coverage": COVERED, "share_reduced": FALSE_REDUCTION}
    result = []
    for name, (precise, weak) in SPREADS.items():
        specified: list[tuple[float, float, Limits]] = [
            (precise, 0.5, changed | {"share_reduced": POWER}),
            (precise, 1 - MARGIN, changed),
            (precise, 1.0, same | {"share_equivalent": POWER}),
            (precise, 1 + MARGIN, changed | {"share_reduced": FALSE_REDUCTION}),
            (weak, 1.0, same),
            (0.0, 1.0, {"share_refused": COVERED}),
        ]
        result += [Kind(by_name[name], *each) for each in specified]
    return result


def compute_ratio(kind: Kind, number: int) -> Ratio:
    """Compute the ratio of the spreads after and before in a sample of this number."""
    rng = generator(f"{kind.population.name}, {kind.spread}, {kind.ratio}", number)
    members, scores = kind.population.sample(rng, (kind.population.rho,) * 2)
    group = members["group"].to_numpy()
    means = np.linspace(-1, 1, group.max() + 1)
    means = (means / means.std())[group]
    # The squares have mean 1, and are orthogonal to the means.
    after = kind.ratio * means + ADDED * (means**2 - 1)
    columns = {"intrinsic_before": scores[0, 0] + kind.spread * means}
    columns |= {"intrinsic_after": scores[1, 0] + kind.spread * after, "stratum": group.astype(str)}
    return estimate_spreads(ways_of(members).assign(**columns), "intrinsic").ratio


def tabulate(measured: Sequence[tuple[Kind, Sequence[Ratio]]]) -> pd.DataFrame:
    """Summarise by kind in which shares of samples a ratio is refused, covered, equivalent and reduced.

    Args:
        measured: kinds, with the ratio in each sample, whose number widens the limits.
    """
    rows = []
    for kind, ratios in measured:
        given = [each for each in ratios if each.is_equivalent is not None]
        is_covered = [each.low <= kind.ratio <= each.high for each in given if kind.spread]
        shares = {
            "share_refused": 1 - len(given) / len(ratios),
            "coverage": float(np.mean(is_covered)) if is_covered else math.nan,
            "share_equivalent": sum(bool(each.is_equivalent) for each in given) / len(ratios),
            "share_reduced": sum(each.high < 1 for each in given) / len(ratios),
        }
        holds = True
        for name, limit in kind.limits.items():
            count = len(is_covered) if name == "coverage" else len(ratios)
            low, high = bounds.limits(*limit, count, few=True) if count else (0, 1)
            holds &= math.isnan(shares[name]) or low <= shares[name] <= high
        row: dict[str, Any] = {"world": kind.population.name, "spread": kind.spread, "ratio": kind.ratio}
        rows.append(row | {"worlds": len(ratios), **shares, "holds": holds})
    return pd.DataFrame(rows)
