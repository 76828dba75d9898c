"""Measure how often two models of equal, and of different strength are told apart on the same targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import replicate
from src.studies.propagation.estimates import Estimate, compare
from src.studies.propagation.level import summarise
from src.studies.propagation.uncertainty import mean_rhos
from src.studies.shared.cluster_jackknife import deletions
from validation.calibration import bounds
from validation.calibration.populations import Population, populations, ways_of
from validation.calibration.seeds import generator

MAX_EQUAL, MIN_POWER = 0.07, 0.9
EQUAL = ("300 persons a group", "200 morphs of 30 parents a group", "labels 36 × 24, both words count")


@dataclass(frozen=True)
class Pair:
    """Two models whose rhos, or levels, are compared.

    Attributes:
        population: population of the targets.
        rhos: rho of the terms of each model; levels are equal in all.
        is_level: whether levels are compared.
    """

    population: Population
    rhos: tuple[float, float]
    is_level: bool = False


def pairs() -> list[Pair]:
    """Return pairs of equal rho, pairs of equal level, and one of different rho."""
    by_name = {population.name: population for population in populations()}
    equal = [Pair(by_name[name], (0.8, 0.8)) for name in EQUAL]
    levels = [Pair(by_name[name], (0.8, 0.8), is_level=True) for name in EQUAL]
    return [*equal, *levels, Pair(by_name[EQUAL[0]], (0.99, 0.8))]


def p_value(pair: Pair, number: int) -> float:
    """Compute the p of equality in a sample of this number."""
    rng = generator(f"{pair.population.name}, {pair.rhos}, {pair.is_level}", number)
    members, scores = pair.population.sample(rng, pair.rhos)
    ways, in_group = ways_of(members), (members["group"] == 0).to_numpy()
    if not pair.is_level:
        ways, scores = ways[in_group], scores[..., in_group]
    units = ways.reset_index(drop=True).rename_axis("id").reset_index()
    removed, estimates = deletions(units), []
    for x, y in scores:
        if pair.is_level:
            statistic = partial(_level, in_group, np.column_stack([x, y]))
        else:
            statistic = partial(_rho, x, y)
        value = float(statistic(np.ones((1, len(x)), dtype=bool))[0, 0])
        estimates.append(Estimate(value, statistic, units, replicate(removed, statistic)))
    return compare(estimates[0], estimates[1], is_correlation=not pair.is_level).p


def _level(in_group: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return summarise(None, in_group, scores, weights)[:, :1]


def _rho(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return mean_rhos(x, y, weights, np.zeros(len(x)))[:, None]


def tabulate(measured: Sequence[tuple[Pair, Sequence[float]]], few: bool) -> pd.DataFrame:
    """Summarise the share of samples in which the models differ with p at most 5%, and its limits.

    Args:
        measured: pairs, with the p of each sample.
        few: whether samples are few, so that the limits are widened.
    """
    rows = []
    for pair, values in measured:
        equal = pair.is_level or pair.rhos[0] == pair.rhos[1]
        low, high = (0.0, MAX_EQUAL) if equal else (MIN_POWER, 1.0)
        if few:
            low, high = bounds.widen(low, high, len(values))
        share = float((np.array(values) <= bounds.ALPHA).mean())
        row: dict[str, Any] = {"world": pair.population.name, "compared": "level" if pair.is_level else "rho"}
        row |= {
            "first": pair.rhos[0],
            "second": pair.rhos[1],
            "worlds": len(values),
            "low": low,
            "high": high,
        }
        rows.append(row | {"share": share, "holds": low <= share <= high and not np.isnan(values).any()})
    return pd.DataFrame(rows)
