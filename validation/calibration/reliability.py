"""Measure how well corrected rho recovers rho without noise, and how often its interval holds it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from src.metrics import spearman
from src.studies.propagation import experiment
from src.studies.propagation.reliability import SPLITS, summarise_splits
from src.studies.propagation.uncertainty import rho_interval_of
from validation.calibration import bounds, coverage, themed_corpora
from validation.calibration.bounds import generator
from validation.calibration.populations import Population, populations, ways_of
from validation.calibration.themed_corpora import Corpora

# Clusters of a simulated corpus: the noise of a score is the mean of theirs.
CLUSTERS = 40
# Limits of the bias of corrected rho, also as a share of that of plain rho. Ranks of skewed scores are not
# attenuated by exactly the noise ceiling.
MAX_BIAS, MAX_SHARE = 0.02, 1 / 3


@dataclass(frozen=True)
class Noise:
    """Scores of a population with noise of known size.

    Attributes:
        population: population of targets, whose scores have no noise.
        reliabilities: of both scores, from half of the corpus.
        shared: correlation of the noise that a cluster adds to both scores, if it is in A or B and retrieved.
    """

    population: Population
    reliabilities: tuple[float, float]
    shared: float = 0.0

    @property
    def name(self) -> str:
        """Return the description of the population and its noise."""
        x, y = self.reliabilities
        noise = f"{self.population.name}, ρ {self.population.rho:g}; reliabilities {x:g} and {y:g}"
        return noise + (f", shared noise {self.shared:g}" if self.shared else "")


class Correction(NamedTuple):
    """Corrected and plain rho of a world, each with its interval."""

    rho_true: float
    low: float
    high: float
    rho: float
    rho_low: float
    rho_high: float


def kinds() -> list[Noise | Corpora]:
    """Return kinds of worlds: scores with noise, and experiments on vectors."""
    by_name = {population.name: population for population in populations()}
    many, labels = by_name["300 persons a group"], by_name["labels 36 × 24, both words count"]
    return [
        Noise(many, (0.7, 0.6)),
        Noise(replace(many, rho=0.9), (0.9, 0.5), 0.8),
        Noise(replace(many, rho=0.0), (0.7, 0.6), 0.8),
        Noise(many, (0.4, 0.4)),
        Noise(by_name["30 persons a group"], (0.7, 0.6)),
        Noise(by_name["60 persons a group, bounded, skewed"], (0.7, 0.6)),
        Noise(by_name["800 words of unequal families"], (0.7, 0.6)),
        Noise(labels, (0.7, 0.6)),
        Noise(by_name["200 morphs of 30 parents a group"], (0.7, 0.6)),
        Corpora("faces", 1.0, 20),
        Corpora("scenes", 2.0, 20),
    ]


def truth_of(kind: Noise | Corpora, size: int) -> float:
    """Compute rho without noise, of `size` independent units or of a large corpus."""
    return (
        themed_corpora.truth_of(kind)
        if isinstance(kind, Corpora)
        else coverage.truth_of(kind.population, size)["rho"]
    )


def correct(kind: Noise | Corpora, number: int) -> Correction:
    """Draw a world of this number and correct its rho."""
    rng = generator(kind.name, number)
    if isinstance(kind, Corpora):
        run = partial(experiment.run, with_reliability=True)
        analysis = run(*vars(themed_corpora.experiment_of(kind, rng)).values()).analyses.iloc[0]
        names = ("rho_true", "rho_true_low", "rho_true_high", "rho", "ci_low", "ci_high")
        return Correction(*(float(analysis[name]) for name in names))
    members, scores = kind.population.sample(rng)
    in_group = (members["group"] == 0).to_numpy()
    ways, blocks = ways_of(members)[in_group], np.zeros(in_group.sum())
    halves, (x, y) = add_noise(kind, scores[0][:, in_group], rng)
    row, _ = summarise_splits(halves, ways, blocks)
    plain = spearman(x, y).rho, *rho_interval_of(x, y, ways, blocks)
    return Correction(row["rho_true"], row["rho_true_low"], row["rho_true_high"], *plain)


def add_noise(kind: Noise, scores: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Add noise to scores [2, n]; return scores from halves [splits, 2 halves, 2, n], and from the corpus."""
    of_x, other = rng.standard_normal((2, scores.shape[1], CLUSTERS))
    of_y = kind.shared * of_x + np.sqrt(1 - kind.shared**2) * other
    noise, reliability = np.stack([of_x, of_y]), np.array(kind.reliabilities)[:, None]
    # Half of the clusters give the reliability.
    size = scores.std(axis=1, keepdims=True) * np.sqrt((1 - reliability) / reliability * CLUSTERS / 2)
    halves = [rng.permutation(CLUSTERS).reshape(2, -1) for _ in range(SPLITS)]
    from_halves = [[scores + size * noise[..., half].mean(axis=2) for half in split] for split in halves]
    return np.array(from_halves), scores + size * noise.mean(axis=2)


def tabulate(
    measured: Sequence[tuple[Noise | Corpora, float, Sequence[Correction]]], few: bool
) -> pd.DataFrame:
    """Summarise bias and coverage of corrected and plain rho by kind of worlds.

    Args:
        measured: kinds, with the truth and the corrections of each world.
        few: whether worlds are few, so that the limits are widened.
    """
    rows = []
    for kind, truth, corrections in measured:
        frame = pd.DataFrame(corrections, columns=Correction._fields)
        defined = frame[frame["low"].notna()]
        count = len(defined)
        low, high = bounds.limits(coverage.OF_A_KIND[0], 1.0, count, few)
        row: dict[str, Any] = {
            "world": kind.name,
            "truth": truth,
            "worlds": len(frame),
            "refused": len(frame) - count,
        }
        row |= {"low": low, "high": high}
        row |= {"coverage_corrected": _share(defined, truth, "low", "high")}
        row |= {"coverage_plain": _share(frame, truth, "rho_low", "rho_high")}
        row |= {
            "bias_corrected": defined["rho_true"].mean() - truth,
            "bias_plain": frame["rho"].mean() - truth,
        }
        error = defined["rho_true"].std(ddof=1) / np.sqrt(count)
        bias = abs(row["bias_corrected"]) - 3 * error * few
        is_near = bias <= MAX_BIAS and bias <= MAX_SHARE * abs(row["bias_plain"])
        rows.append(row | {"holds": bool(is_near and low <= row["coverage_corrected"] <= high)})
    return pd.DataFrame(rows)


def _share(frame: pd.DataFrame, truth: float, low: str, high: str) -> float:
    return float(((frame[low] <= truth) & (truth <= frame[high])).mean())
