"""Simulate populations of targets with different rhos, and draw samples from them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

# Absolute value at which the simulated intrinsic scores saturate.
BOUND = 1.4
# Share of targets in each tail: 25 of 900.
EXTREME = 25 / 900

Scores = np.ndarray  # [2, n]: intrinsic and extrinsic
# Function from a generator and the indices of the two parts of each unit (see `Population.scores`) to scores.
Scoring = Callable[[np.random.Generator, np.ndarray, np.ndarray], Scores]


@dataclass(frozen=True)
class Population:
    """A population of targets.

    Attributes:
        name: description of the population.
        members: (rng) -> names of the units of a sample and of their parts: two words or two parents, if any
            (see `src.studies.shared.resampling`).
        scores: (rng, indices of the first and of the second part of each unit, both [n]) -> scores [2, n].
        max_coverage: highest coverage that the interval may have.
    """

    name: str
    members: Callable[[np.random.Generator], pd.DataFrame]
    scores: Scoring
    max_coverage: float = 0.98

    def sample(self, rng: np.random.Generator) -> tuple[pd.DataFrame, Scores]:
        """Draw the sample of a study: names of its units and their parts, and their scores."""
        members = self.members(rng)
        parts = [column for column in members if column != "name"] or ["name", "name"]
        # Both parents come from one set of faces; race words and gender words are two sets.
        _, indices = np.unique(members[parts].to_numpy(dtype=str).T, return_inverse=True)
        first, second = indices.reshape(2, -1)
        return members, self.scores(rng, first, second)

    def rho(self, rng: np.random.Generator, size: int) -> float:
        """Compute the population's rho from units that share no parts."""
        return float(stats.spearmanr(*self.scores(rng, np.arange(size), np.arange(size, 2 * size))).statistic)


def populations() -> Iterator[Population]:
    """Yield all populations on which the interval is checked."""
    independent = partial(_independent, 300)
    yield Population("normal scores", independent, _normal)
    yield Population("30 targets", partial(_independent, 30), _normal)
    yield Population("ties: share of 10", independent, _tied)
    yield Population("saturated at both bounds", independent, _saturated)
    yield Population("saturated, and ties", independent, _saturated_and_tied)
    yield Population("uneven variance", independent, _uneven)
    yield Population("the 50 extremes of 900", partial(_independent, 50), _extremes)
    twelve, five = partial(_crossed, 12, 12), partial(_crossed, 5, 5)
    yield Population("labels 12 × 12, both words count", twelve, _words(1, 1, 0.5))
    yield Population("labels 12 × 12, race word counts", twelve, _words(1, 0.3, 0.3))
    yield Population("labels 12 × 12, weak rho", twelve, _words(1, 1, 0.5, rho=0.2))
    yield Population("labels 12 × 12, strong rho", twelve, _words(1, 1, 0.3, rho=0.95))
    yield Population("labels 36 × 24, both words count", partial(_crossed, 36, 24), _words(1, 1, 0.5))
    yield Population("1,000 morphs of 90 parents", partial(_morphs, 90, 1000), _parents)
    yield Population("1,000 morphs of 52 parents", partial(_morphs, 52, 1000), _parents)
    yield Population("150 morphs of 30 parents", partial(_morphs, 30, 150), _parents)
    # Intervals known to be too wide: products of weights triple the variance of the phrase itself, and
    # with few words or parents the weights vary greatly.
    yield Population("labels 12 × 12, phrase counts most", twelve, _words(0.5, 0.5, 1), max_coverage=1)
    yield Population("labels 5 × 5, both words count", five, _words(1, 1, 0.5), max_coverage=1)
    yield Population("28 morphs of 8 parents", partial(_morphs, 8, 28), _parents, max_coverage=1)


def _independent(count: int, _: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame({"name": _names(np.arange(count))})


def _crossed(races: int, genders: int, _: np.random.Generator) -> pd.DataFrame:
    race, gender = np.divmod(np.arange(races * genders), genders)
    words = {"race_word": _names(race, "r"), "gender_word": _names(gender, "g")}
    return pd.DataFrame(words).assign(name=_names(np.arange(len(race))))


def _morphs(parents: int, count: int, rng: np.random.Generator) -> pd.DataFrame:
    pairs = np.stack(np.triu_indices(parents, 1), axis=1)
    first, second = pairs[rng.choice(len(pairs), count, replace=False)].T
    parents_of = {"parent_a": _names(first), "parent_b": _names(second)}
    return pd.DataFrame(parents_of).assign(name=_names(np.arange(count)))


def _names(numbers: np.ndarray, prefix: str = "u") -> list[str]:
    return [f"{prefix}{number:05d}" for number in numbers]


def _correlated(rng: np.random.Generator, size: int, rho: float, deviation: float = 1) -> Scores:
    first, noise = rng.standard_normal((2, size))
    scores: Scores = deviation * np.stack([first, rho * first + np.sqrt(1 - rho**2) * noise])
    return scores


def _normal(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    return _correlated(rng, len(first), 0.8)


def _tied(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, y = _correlated(rng, len(first), 0.9)
    return np.stack([x, _binomial_share(rng, y)])


def _binomial_share(rng: np.random.Generator, latent: np.ndarray) -> np.ndarray:
    scores: np.ndarray = rng.binomial(10, 1 / (1 + np.exp(-latent))) / 10
    return scores


def _saturated(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, y = _correlated(rng, len(first), 0.9)
    return np.stack([_saturate(rng, x), y])


def _saturated_and_tied(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, y = _correlated(rng, len(first), 0.9)
    return np.stack([_saturate(rng, x), _binomial_share(rng, 2 * y)])


def _saturate(rng: np.random.Generator, latent: np.ndarray) -> np.ndarray:
    effect = BOUND * np.tanh(2 * latent) + 0.1 * rng.standard_normal(len(latent))
    scores: np.ndarray = effect.clip(-BOUND, BOUND)
    return scores


def _uneven(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, noise = rng.standard_normal((2, len(first)))
    return np.stack([x, x + (0.1 + x**2) * noise])


def _extremes(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    # Half of the targets have the lowest valences, half the highest: both scores separate the halves.
    low, *noise = rng.standard_normal((3, len(first)))
    tail = stats.norm.ppf(stats.norm.cdf(low) * EXTREME)
    scores: Scores = np.where(np.arange(len(first)) % 2, tail, -tail) + 0.8 * np.stack(noise)
    return scores


def _words(race: float, gender: float, phrase: float, rho: float = 0.8) -> Scoring:
    # Standard deviations of the terms that a phrase's race word, its gender word and the phrase itself add to
    # both scores; rho of each term.
    def scores(rng: np.random.Generator, first: np.ndarray, second: np.ndarray) -> Scores:
        of_race = _correlated(rng, first.max() + 1, rho, race)
        of_gender = _correlated(rng, second.max() + 1, rho, gender)
        total: Scores = of_race[:, first] + of_gender[:, second] + _correlated(rng, len(first), rho, phrase)
        return total

    return scores


def _parents(rng: np.random.Generator, first: np.ndarray, second: np.ndarray) -> Scores:
    faces = _correlated(rng, max(first.max(), second.max()) + 1, 0.8)
    scores: Scores = (faces[:, first] + faces[:, second]) / 2 + _correlated(rng, len(first), 0.3, 0.3)
    return scores
