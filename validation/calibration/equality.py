"""Measure how often two models, or groups, of equal and of different strength are told apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import replicate
from src.studies.propagation.estimates import Estimate, compare
from src.studies.propagation.level import compute_level_statistics
from src.studies.propagation.uncertainty import compute_mean_rhos
from src.studies.shared.cluster_jackknife import build_subsamples
from validation.calibration import bounds
from validation.calibration.bounds import generator
from validation.calibration.populations import Population, populations, ways_of

MAX_EQUAL, MIN_POWER = 0.07, 0.9
EQUAL = ("300 persons a group", "200 morphs of 30 parents a group", "labels 36 × 24, both words count")


@dataclass(frozen=True)
class Pair:
    """Two models whose rhos, or levels, are compared."""

    population: Population  # population of the targets
    rhos: tuple[float, float]  # rho of the terms of each model; levels are equal in all
    is_level: bool = False  # whether levels are compared
    is_groups: bool = False  # whether the rho of two groups in the first model are compared instead

    @property
    def compared(self) -> str:
        """Return what is compared."""
        return "rho of groups" if self.is_groups else "level" if self.is_level else "rho"


def pairs() -> list[Pair]:
    """Return pairs of equal rho, of equal level, and of groups of equal rho, and one of different rho."""
    by_name = {population.name: population for population in populations()}
    kinds: tuple[dict[str, bool], ...] = ({}, {"is_level": True}, {"is_groups": True})
    equal = [Pair(by_name[name], (0.8, 0.8), **kind) for kind in kinds for name in EQUAL]
    return [*equal, Pair(by_name[EQUAL[0]], (0.99, 0.8))]


def p_value(pair: Pair, number: int) -> float:
    """Compute the p of equality in a sample of this number."""
    rng = generator(f"{pair.population.name}, {pair.rhos}, {pair.compared}", number)
    members, scores = pair.population.sample(rng, pair.rhos)
    ways, group = ways_of(members), members["group"].to_numpy()
    # Rows and scores of each of the two models, or groups.
    if pair.is_level:
        compared = [(np.arange(len(group)), model_scores) for model_scores in scores]
    elif pair.is_groups:
        compared = [(np.flatnonzero(group == number), scores[0]) for number in (0, 1)]
    else:
        compared = [(np.flatnonzero(group == 0), model_scores) for model_scores in scores]
    estimates = []
    for rows, (x, y) in compared:
        units = ways.iloc[rows].rename_axis("id").reset_index()
        if pair.is_level:
            statistic = partial(level_of, group == 0, np.column_stack([x, y]))
        else:
            statistic = partial(_rho, x[rows], y[rows])
        value = float(statistic(np.ones((1, len(rows)), dtype=bool))[0, 0])
        subsamples = build_subsamples(units, (group == 0, group != 0) if pair.is_level else ())
        estimates.append(Estimate(value, statistic, units, replicate(subsamples, statistic)))
    return compare(estimates[0], estimates[1], is_correlation=not pair.is_level).p


def level_of(in_group: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute the level of a group in samples with weights [G, n], [G, 1]."""
    return compute_level_statistics(None, in_group, scores, weights)[:, :1]


def _rho(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return compute_mean_rhos(x, y, weights, np.zeros(len(x)))[:, None]


def tabulate(measured: Sequence[tuple[Pair, Sequence[float]]], few: bool) -> pd.DataFrame:
    """Summarise the share of samples in which the models differ with p at most 5%, and its limits.

    `measured` has pairs, with the p of each sample; `few` samples widen the limits.
    """
    rows = []
    for pair, values in measured:
        equal = pair.is_level or pair.rhos[0] == pair.rhos[1]
        low, high = bounds.limits(*((0.0, MAX_EQUAL) if equal else (MIN_POWER, 1.0)), len(values), few)
        share = float((np.array(values) <= bounds.ALPHA).mean())
        row: dict[str, Any] = {"world": pair.population.name, "compared": pair.compared}
        row |= {"first": pair.rhos[0], "second": pair.rhos[1], "worlds": len(values)}
        row |= {"low": low, "high": high}
        rows.append(row | {"share": share, "holds": low <= share <= high and not np.isnan(values).any()})
    return pd.DataFrame(rows)
