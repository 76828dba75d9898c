"""Measure level and rho of planted strengths, and how ordinary properties compare with property draws."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from src.studies.propagation import experiment
from validation.calibration import bounds, worlds
from validation.calibration.bounds import generator
from validation.calibration.nulls import Analysis
from validation.calibration.worlds import Experiment, Items, Kind

STRENGTHS = (0.0, 0.5, 1.0, 2.0)
PLANTED = next(kind for kind in worlds.kinds() if kind.corpus == "labels")
PROPERTY_DRAWS = 200
# Width of the vectors of ordinary properties, and share of a rating's variance that its vector explains.
AXES, EXPLAINED = 32, 0.5
CLUSTER_SIZES = (1, 4)
MIN_ABOVE, MAX_ABOVE = 0.02, 0.08


def strengths() -> list[Kind]:
    """Return experiments on labels whose groups are planted in the vectors with increasing strength."""
    return [replace(PLANTED, planted=strength) for strength in STRENGTHS]


def tabulate(measured: Sequence[tuple[Kind, Sequence[Analysis]]]) -> pd.DataFrame:
    """Summarise by strength level and rho with their power; level must rise, and be calibrated at 0.

    An undefined rho is not significant.
    """
    rows: list[dict[str, Any]] = []
    for kind, analyses in measured:
        frame = pd.DataFrame(analyses, columns=Analysis._fields)
        power = frame[["level_p", "p_placebo"]] <= bounds.ALPHA
        power_rho = power["p_placebo"] & frame["rho"].notna()
        row = {"planted": kind.planted, "worlds": len(frame), "mean_level": frame["level"].mean()}
        row |= {"share_level": power["level_p"].mean(), "mean_rho": frame["rho"].mean()}
        row |= {"share_rho": power_rho.mean(), "undefined": frame["rho"].isna().sum()}
        if kind.planted:
            holds = row["mean_level"] > rows[-1]["mean_level"]
        else:
            low, high = bounds.of_false_positive_rate(len(frame))
            holds = low <= row["share_level"] <= high
        rows.append(row | {"holds": bool(holds)})
    return pd.DataFrame(rows)


def property_experiment(cluster_size: int, number: int) -> Experiment:
    """Draw scenes whose ratings are an ordinary property: a random direction of their vectors, and noise.

    As many scenes as `cluster_size` share ratings and vectors in part; 1: none do.
    """
    rng = generator(f"property, {cluster_size}", number)
    spectrum = 1 / np.sqrt(np.arange(1, AXES + 1))
    cluster = np.repeat(np.arange(300 // cluster_size), cluster_size)
    corpus = _rated(rng, cluster, spectrum, rng.standard_normal(AXES), "s")
    targets = _rated(rng, np.arange(100), spectrum, rng.standard_normal(AXES), "w")
    protocol = replace(worlds.PROTOCOL, placebo=0, property_draws=PROPERTY_DRAWS)
    table, vectors = worlds.stimuli("scenes", *corpus, rng)
    words, word_vectors = worlds.stimuli("words", *targets, rng)
    return Experiment(words, table, word_vectors, vectors, protocol, number)


def _rated(
    rng: np.random.Generator, cluster: np.ndarray, spectrum: np.ndarray, direction: np.ndarray, prefix: str
) -> Items:
    vectors = worlds.clustered(cluster, rng, len(spectrum)) * spectrum
    explained = vectors @ direction
    noise = worlds.clustered(cluster, rng, 1)[:, 0]
    latent = math.sqrt(EXPLAINED) * explained / explained.std() + math.sqrt(1 - EXPLAINED) * noise
    valence = (latent - latent.min()) / np.ptp(latent)
    names = [f"{prefix}{number:03d}" for number in range(len(cluster))]
    frame = pd.DataFrame({"name": names, "valence": valence, "cluster": [f"c{c:03d}" for c in cluster]})
    return frame, vectors


def compare_with_draws(cluster_size: int, number: int) -> tuple[float, float]:
    """Return whether rho is above the 95th, and below the 5th percentile of draws: 0 or 1, NaN if refused."""
    row = experiment.run(*vars(property_experiment(cluster_size, number)).values()).analyses.iloc[0]
    if math.isnan(row["property_q95"]):
        return math.nan, math.nan
    rho = row["rho_property_units"]
    return float(rho > row["property_q95"]), float(rho < row["property_q05"])


def tabulate_properties(
    measured: Sequence[tuple[int, Sequence[tuple[float, float]]]], few: bool
) -> pd.DataFrame:
    """Summarise the shares of ordinary properties above and below the draws, by size of clusters."""
    rows = []
    for cluster_size, outside in measured:
        defined = np.array(outside)[~np.isnan(outside).any(axis=1)]
        count, (above, below) = len(defined), defined.mean(axis=0)
        low, high = bounds.limits(MIN_ABOVE, MAX_ABOVE, count, few)
        name = f"clusters of {cluster_size}" if cluster_size > 1 else "single scenes"
        row = {"world": name, "worlds": count, "refused": len(outside) - count, "low": low, "high": high}
        row |= {"share_above": above, "share_below": below}
        rows.append(row | {"holds": bool(low <= above <= high)})
    return pd.DataFrame(rows)
