"""How often an interval holds the rho of the population that its sample came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from src.metrics import interval, spearman, weighted_spearman
from src.studies.shared.resampling import weights
from validation.calibration.populations import World

LEAST = 0.92
# Where worlds are few, a claim fails when a coverage inside the claim gives so little with this probability.
CERTAINTY = 0.999


@dataclass(frozen=True)
class Sampled:
    """One study: which intervals hold the truth, and how wide the percentile interval is."""

    n: int
    holds: tuple[bool, ...]
    width: float


def sampled(world: World, truth: float, number: int, draws: int) -> Sampled:
    """One study of a world.

    Args:
        world: the population.
        truth: its rho.
        number: of the study, which seeds it.
        draws: of each bootstrap.
    """
    members, (x, y) = world.sample(np.random.default_rng([1, number]))
    singly = members[["name"]]
    intervals = [interval(weighted_spearman(x, y, weights(members, draws, number)))]
    # The same draws where nothing is shared.
    shared = len(members.columns) > 1
    intervals.append(
        interval(weighted_spearman(x, y, weights(singly, draws, number))) if shared else intervals[0]
    )
    intervals.append(_fisher(spearman(x, y).rho, len(x)))
    holds = tuple(low <= truth <= high for low, high in intervals)
    return Sampled(len(x), holds, intervals[0][1] - intervals[0][0])


def truth_of(world: World, size: int) -> float:
    """The rho of a world's population, of which `size` units are drawn: 2 million give it to 0.001."""
    return world.rho(np.random.default_rng(0), size)


def _fisher(rho: float, n: int) -> tuple[float, float]:
    # The analytic interval, for comparison alone.
    reach = stats.norm.ppf(0.975) / np.sqrt(n - 3)
    low, high = np.tanh(np.arctanh(rho) + np.array([-reach, reach]))
    return float(low), float(high)


def tabulate(measured: Sequence[tuple[World, float, Sequence[Sampled]]], quick: bool) -> pd.DataFrame:
    """One row per world: what is asked, what is measured, and whether it holds.

    Args:
        measured: world, its rho, and its studies.
        quick: studies are few: allow for chance.
    """
    rows = []
    for world, truth, studies in measured:
        shares = np.mean([study.holds for study in studies], axis=0)
        low, high = LEAST, world.most
        if quick:
            low = stats.binom.ppf((1 - CERTAINTY) / 2, len(studies), low) / len(studies)
            high = stats.binom.ppf((1 + CERTAINTY) / 2, len(studies), high) / len(studies)
        rows.append(
            {
                "world": world.name,
                "n": studies[0].n,
                "rho": truth,
                "worlds": len(studies),
                "low": low,
                "high": high,
                "coverage": shares[0],
                "holds": bool(low <= shares[0] <= high),
                "mean_width": float(np.mean([study.width for study in studies])),
                "coverage_single": shares[1],
                "coverage_fisher": shares[2],
            }
        )
    return pd.DataFrame(rows)
