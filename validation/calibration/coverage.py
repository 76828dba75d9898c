"""Measure how often an interval of rho contains the rho of the sampled population."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from src.metrics import interval, spearman, weighted_spearman
from src.studies.shared.resampling import weights
from validation.calibration.populations import Population

MIN_COVERAGE = 0.92
# With few studies, the limits of coverage are widened, so that the measured coverage is inside them with this
# probability if the true coverage is at a limit.
CERTAINTY = 0.999


@dataclass(frozen=True)
class Study:
    """Result of a simulated study.

    Attributes:
        n: number of units.
        covered: whether each of three intervals contains the population's rho: the percentile interval, that
            of a bootstrap of single units, which ignores shared words and parents, and Fisher's.
        width: width of the percentile interval.
    """

    n: int
    covered: tuple[bool, ...]
    width: float


def simulate_study(population: Population, truth: float, number: int, draws: int) -> Study:
    """Simulate a study of a sample of a population.

    Args:
        population: population of targets.
        truth: rho of the population.
        number: number of the study, used as its random seed.
        draws: number of draws of each bootstrap.
    """
    members, (x, y) = population.sample(np.random.default_rng([1, number]))
    names_only = members[["name"]]
    intervals = [interval(weighted_spearman(x, y, weights(members, draws, number)))]
    # Units that share no words or parents have the same draws in both bootstraps.
    shared = len(members.columns) > 1
    intervals.append(
        interval(weighted_spearman(x, y, weights(names_only, draws, number))) if shared else intervals[0]
    )
    intervals.append(_fisher(spearman(x, y).rho, len(x)))
    covered = tuple(low <= truth <= high for low, high in intervals)
    return Study(len(x), covered, intervals[0][1] - intervals[0][0])


def truth_of(population: Population, size: int) -> float:
    """Estimate the rho of a population from `size` independent units: from 2 million, to within 0.001."""
    return population.rho(np.random.default_rng(0), size)


def _fisher(rho: float, n: int) -> tuple[float, float]:
    # The analytic 95% interval by Fisher's z, for comparison only.
    reach = stats.norm.ppf(0.975) / np.sqrt(n - 3)
    low, high = np.tanh(np.arctanh(rho) + np.array([-reach, reach]))
    return float(low), float(high)


def tabulate(measured: Sequence[tuple[Population, float, Sequence[Study]]], quick: bool) -> pd.DataFrame:
    """Summarise the measured coverage of each population, its limits, and whether it is inside them.

    Args:
        measured: populations, with the rho and the studies of each.
        quick: whether studies are few, so that the limits are widened.
    """
    rows = []
    for population, truth, studies in measured:
        coverages = np.mean([study.covered for study in studies], axis=0)
        low, high = MIN_COVERAGE, population.max_coverage
        if quick:
            low = stats.binom.ppf((1 - CERTAINTY) / 2, len(studies), low) / len(studies)
            high = stats.binom.ppf((1 + CERTAINTY) / 2, len(studies), high) / len(studies)
        rows.append(
            {
                "world": population.name,
                "n": studies[0].n,
                "rho": truth,
                "worlds": len(studies),
                "low": low,
                "high": high,
                "coverage": coverages[0],
                "holds": bool(low <= coverages[0] <= high),
                "mean_width": float(np.mean([study.width for study in studies])),
                "coverage_single": coverages[1],
                "coverage_fisher": coverages[2],
            }
        )
    return pd.DataFrame(rows)
