"""Measure how often the smallest effects that a plan states are detected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import replicate, t_test
from src.metrics.power import QUANTILE_SUM, detectable
from src.studies.propagation import experiment
from src.studies.propagation.estimates import Estimate, compare
from src.studies.propagation.level import TOLERANCE
from src.studies.propagation.minimum_detectable import standard_error
from src.studies.shared.cluster_jackknife import build_subsamples
from validation.calibration import bounds, worlds
from validation.calibration.bounds import generator
from validation.calibration.equality import level_of
from validation.calibration.populations import SHIFT, Population, populations, ways_of
from validation.calibration.worlds import Kind

LEVEL, DIFFERENCE, PLACEBO = "level", "difference of two models", "level, by the placebo"
POPULATIONS = ("300 persons a group", "200 morphs of 30 parents a group", "labels 36 × 24, both words count")
LIMITS = (0.75, 0.85)


@dataclass(frozen=True)
class Effect:
    """An effect of the smallest detectable size: in samples of a population, or in null worlds of a kind."""

    name: str
    world: Population | Kind


def effects() -> list[Effect]:
    """Return the effects."""
    by_name = {population.name: population for population in populations()}
    samples = [
        Effect(name, by_name[population]) for name in (LEVEL, DIFFERENCE) for population in POPULATIONS
    ]
    return [*samples, *(Effect(PLACEBO, kind) for kind in worlds.kinds())]


def detect(effect: Effect, number: int) -> tuple[float, float]:
    """Draw a sample with the effect that a first sample states; return its size, and whether p ≤ .05."""
    if isinstance(effect.world, Kind):
        return _by_placebo(effect.world, number)
    rng = generator(f"detectable, {effect.name}, {effect.world.name}", number)
    is_level = effect.name == LEVEL
    error, df, _ = _test(effect.world, rng, 0.0, is_level)
    planted = detectable(error, df)
    return planted, float(_test(effect.world, rng, planted, is_level)[2] <= bounds.ALPHA)


def _test(
    population: Population, rng: np.random.Generator, planted: float, is_level: bool
) -> tuple[float, int, float]:
    """Draw a sample; return standard error, degrees of freedom and p of its level, or of the difference."""
    first, second = levels(population, rng, planted, is_level)
    df = first.replicates.df
    if is_level:
        variance = float(first.replicates.variance()[0])
        return math.sqrt(variance), df, t_test(first.value, variance, df)
    difference = compare(first, second, is_correlation=False)
    return standard_error(difference.low, difference.high, df), df, difference.p


def levels(
    population: Population, rng: np.random.Generator, planted: float, is_level: bool
) -> tuple[Estimate, Estimate]:
    """Return the levels of two models; the first is larger by `planted` than the second, or than 0."""
    members, scores = population.sample(rng, (0.8, 0.8))
    in_group = (members["group"] == 0).to_numpy()
    units = ways_of(members).rename_axis("id").reset_index()
    subsamples = build_subsamples(units, (in_group, ~in_group))
    scores[0, 1] += (planted - SHIFT * is_level) * in_group
    estimates = []
    for x, y in scores:
        statistic = partial(level_of, in_group, np.column_stack([x, y]))
        value = float(statistic(np.ones((1, len(units)), dtype=bool))[0, 0])
        estimates.append(Estimate(value, statistic, units, replicate(subsamples, statistic)))
    return estimates[0], estimates[1]


def _by_placebo(kind: Kind, number: int) -> tuple[float, float]:
    """Add 2.80 SD of the permuted levels to the level of a null world."""
    result = experiment.run(*vars(worlds.experiment(kind, number)).values())
    stratum = result.analyses["stratum"].iloc[number % len(result.analyses)]
    draws = result.level_draws[result.level_draws["stratum"] == stratum].sort_values("draw")
    permuted = draws["level"].to_numpy(copy=True)
    planted = QUANTILE_SUM * permuted.std()
    permuted[0] += planted
    distances = np.abs(permuted - permuted.mean())
    return float(planted), float((distances >= distances[0] - TOLERANCE).mean() <= bounds.ALPHA)


def tabulate(measured: Sequence[tuple[Effect, Sequence[tuple[float, float]]]], few: bool) -> pd.DataFrame:
    """Summarise the share of worlds in which the effect is detected, and its limits.

    Args:
        measured: effects, with the planted size and the detection in each world.
        few: whether worlds are few, so that the limits are widened.
    """
    rows: list[dict[str, Any]] = []
    for effect, worlds_of_effect in measured:
        planted, is_detected = np.array(worlds_of_effect).T
        low, high = bounds.limits(*LIMITS, len(planted), few)
        row = {"effect": effect.name, "world": effect.world.name, "worlds": len(planted)}
        share = float(is_detected.mean())
        row |= {"low": low, "high": high, "planted": planted.mean(), "share": share}
        rows.append(row | {"holds": low <= share <= high})
    return pd.DataFrame(rows)
