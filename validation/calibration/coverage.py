"""Measure how often jackknife intervals of rho, group mean and level contain those of the population."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import compute_t_interval, replicate
from src.studies.propagation.level import compute_level_statistics
from src.studies.propagation.uncertainty import rho_interval_of
from src.studies.shared.cluster_jackknife import build_subsamples
from validation.calibration import bounds
from validation.calibration.bounds import generator
from validation.calibration.populations import Population, ways_of

# Limits of the coverage in each kind of samples, and of its mean over all kinds.
OF_A_KIND, OF_THE_MEAN = (0.89, 0.985), (0.93, 0.97)
MEAN = "mean over kinds"
STATISTICS = ("rho", "mean", "level")
# Without clusters: the interval of rho that ignores words and parents that targets share, for comparison.
SINGLE = "single"

Interval = tuple[float, float]


def intervals_of(population: Population, number: int) -> dict[str, Interval]:
    """Draw a sample of a population, by its number, and compute its 95% intervals.

    Returns those of `STATISTICS`, rho and mean outcome of the first group, and of rho without clusters.
    """
    members, scores = population.sample(generator(population.name, number))
    ways, in_group = ways_of(members), (members["group"] == 0).to_numpy()
    (x, y), ratings = scores[0], members["valence"].to_numpy() if population.is_rated else None
    group_ways, blocks = ways[in_group], np.zeros(in_group.sum())
    single = pd.DataFrame({"cluster": [f"{unit:05d}" for unit in range(len(group_ways))]})
    subsamples_in_group = build_subsamples(group_ways)
    of_group = y[in_group]
    means = replicate(subsamples_in_group, lambda rows: (rows @ of_group / rows.sum(axis=1))[:, None])
    levels = partial(compute_level_statistics, ratings, in_group, np.column_stack([x, y]))
    level = levels(np.ones((1, len(x))))[0, 0]
    subsamples = build_subsamples(ways, () if population.is_rated else (in_group, ~in_group))
    variance = replicate(subsamples, levels).variance()[0]
    return {
        "rho": rho_interval_of(x[in_group], of_group, group_ways, blocks),
        "mean": compute_t_interval(float(of_group.mean()), float(means.variance()[0]), means.df),
        "level": compute_t_interval(float(level), float(variance), subsamples.df),
        SINGLE: rho_interval_of(x[in_group], of_group, single, blocks),
    }


def truth_of(population: Population, size: int) -> dict[str, float]:
    """Compute `STATISTICS` from `size` independent units: from 400,000, rho to within 0.003."""
    truths = population.truth(np.random.default_rng(0), size)
    return dict(zip(STATISTICS, truths.tolist(), strict=True))


def tabulate(
    measured: Sequence[tuple[Population, dict[str, float], Sequence[dict[str, Interval]]]], few: bool
) -> pd.DataFrame:
    """Summarise the coverage by population, its limits, and whether it is inside them.

    `measured` has populations, with the truth and the intervals of each sample; `few` samples widen limits.
    """
    rows = []
    for population, truth, samples in measured:
        low, high = bounds.limits(*OF_A_KIND, len(samples), few)
        row: dict[str, Any] = {"world": population.name, "rho": truth["rho"], "worlds": len(samples)}
        row |= {"low": low, "high": high}
        statistics = STATISTICS[:1] if population.is_fixed else STATISTICS
        for name in (*STATISTICS, SINGLE):
            ends, target = np.array([sample[name] for sample in samples]), truth.get(name, truth["rho"])
            covered = float(((ends[:, 0] <= target) & (target <= ends[:, 1])).mean())
            row[f"coverage_{name}"] = covered if name in (*statistics, SINGLE) else math.nan
        row["width_rho"] = float(np.mean([high - low for low, high in (sample["rho"] for sample in samples)]))
        rows.append(row | {"holds": all(low <= row[f"coverage_{name}"] <= high for name in statistics)})
    table = pd.DataFrame(rows)
    means = table.filter(like="coverage_").mean()
    low, high = bounds.limits(*OF_THE_MEAN, int(table["worlds"].sum()), few)
    mean = {"world": MEAN, "worlds": table["worlds"].sum(), "low": low, "high": high, **means}
    holds = all(low <= means[f"coverage_{name}"] <= high for name in STATISTICS)
    return pd.concat([table, pd.DataFrame([mean | {"holds": holds}])], ignore_index=True)
