"""Simulated populations of targets, each with its own rho, from which samples are drawn anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

# SC-EAT with sets of 25 is at most this.
BOUND = 1.4
# 25 of 900 on each side.
EXTREME = 25 / 900

Scores = np.ndarray  # [2, n]: intrinsic and extrinsic
Scoring = Callable[[np.random.Generator, np.ndarray, np.ndarray], Scores]


@dataclass(frozen=True)
class World:
    """A population of targets.

    Attributes:
        name: what is special about it.
        members: draws what the units of one sample are made of (`src.studies.shared.resampling.weights`).
        scores: draws the scores of units that are made of parts: rng, first and second part [n] -> [2, n].
        most: coverage above this is a fault.
    """

    name: str
    members: Callable[[np.random.Generator], pd.DataFrame]
    scores: Scoring
    most: float = 0.98

    def sample(self, rng: np.random.Generator) -> tuple[pd.DataFrame, Scores]:
        """What one study sees: its units, and their scores."""
        members = self.members(rng)
        parts = [column for column in members if column != "name"] or ["name", "name"]
        # Parents are one population, race words and gender words are two.
        _, places = np.unique(members[parts].to_numpy(dtype=str).T, return_inverse=True)
        first, second = places.reshape(2, -1)
        return members, self.scores(rng, first, second)

    def rho(self, rng: np.random.Generator, size: int) -> float:
        """Of the population: no two units share a part."""
        return float(stats.spearmanr(*self.scores(rng, np.arange(size), np.arange(size, 2 * size))).statistic)


def worlds() -> Iterator[World]:
    """All that the interval is held against."""
    some = partial(_singly, 300)
    yield World("normal scores", some, _normal)
    yield World("30 targets", partial(_singly, 30), _normal)
    yield World("ties: share of 10", some, _tied)
    yield World("saturated at both bounds", some, _saturated)
    yield World("saturated, and ties", some, _saturated_and_tied)
    yield World("uneven variance", some, _uneven)
    yield World("the 50 extremes of 900", partial(_singly, 50), _extremes)
    twelve = partial(_crossed, 12, 12)
    yield World("labels 12 × 12, both words count", twelve, _words(1, 1, 0.5))
    yield World("labels 12 × 12, race word counts", twelve, _words(1, 0.3, 0.3))
    yield World("labels 12 × 12, weak rho", twelve, _words(1, 1, 0.5, rho=0.2))
    yield World("labels 12 × 12, strong rho", twelve, _words(1, 1, 0.3, rho=0.95))
    yield World("labels 36 × 24, both words count", partial(_crossed, 36, 24), _words(1, 1, 0.5))
    yield World("1,000 morphs of 90 parents", partial(_morphs, 90, 1000), _parents)
    yield World("1,000 morphs of 52 parents", partial(_morphs, 52, 1000), _parents)
    yield World("150 morphs of 30 parents", partial(_morphs, 30, 150), _parents)
    # Known to be too wide: products of weights count three times what belongs to the phrase alone, and
    # few parts are drawn very unevenly.
    yield World("labels 12 × 12, phrase counts most", twelve, _words(0.5, 0.5, 1), most=1)
    yield World("labels 5 × 5, both words count", partial(_crossed, 5, 5), _words(1, 1, 0.5), most=1)
    yield World("28 morphs of 8 parents", partial(_morphs, 8, 28), _parents, most=1)


def _singly(count: int, _: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame({"name": _names(np.arange(count))})


def _crossed(races: int, genders: int, _: np.random.Generator) -> pd.DataFrame:
    race, gender = np.divmod(np.arange(races * genders), genders)
    found = {"race_word": _names(race, "r"), "gender_word": _names(gender, "g")}
    return pd.DataFrame(found).assign(name=_names(np.arange(len(race))))


def _morphs(parents: int, count: int, rng: np.random.Generator) -> pd.DataFrame:
    pairs = np.stack(np.triu_indices(parents, 1), axis=1)
    first, second = pairs[rng.choice(len(pairs), count, replace=False)].T
    found = {"parent_a": _names(first), "parent_b": _names(second)}
    return pd.DataFrame(found).assign(name=_names(np.arange(count)))


def _names(numbers: np.ndarray, prefix: str = "u") -> list[str]:
    return [f"{prefix}{number:05d}" for number in numbers]


def _linked(rng: np.random.Generator, size: int, rho: float, deviation: float = 1) -> Scores:
    first, noise = rng.standard_normal((2, size))
    found: Scores = deviation * np.stack([first, rho * first + np.sqrt(1 - rho**2) * noise])
    return found


def _normal(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    return _linked(rng, len(first), 0.8)


def _tied(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, y = _linked(rng, len(first), 0.9)
    return np.stack([x, _share(rng, y)])


def _share(rng: np.random.Generator, latent: np.ndarray) -> np.ndarray:
    found: np.ndarray = rng.binomial(10, 1 / (1 + np.exp(-latent))) / 10
    return found


def _saturated(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, y = _linked(rng, len(first), 0.9)
    return np.stack([_bounded(rng, x), y])


def _saturated_and_tied(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, y = _linked(rng, len(first), 0.9)
    return np.stack([_bounded(rng, x), _share(rng, 2 * y)])


def _bounded(rng: np.random.Generator, latent: np.ndarray) -> np.ndarray:
    effect = BOUND * np.tanh(2 * latent) + 0.1 * rng.standard_normal(len(latent))
    found: np.ndarray = effect.clip(-BOUND, BOUND)
    return found


def _uneven(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    x, noise = rng.standard_normal((2, len(first)))
    return np.stack([x, x + (0.1 + x**2) * noise])


def _extremes(rng: np.random.Generator, first: np.ndarray, _: np.ndarray) -> Scores:
    # Half of them of the least, half of the greatest valence: both scores split the halves.
    low, *noise = rng.standard_normal((3, len(first)))
    tail = stats.norm.ppf(stats.norm.cdf(low) * EXTREME)
    found: Scores = np.where(np.arange(len(first)) % 2, tail, -tail) + 0.8 * np.stack(noise)
    return found


def _words(race: float, gender: float, own: float, rho: float = 0.8) -> Scoring:
    # Deviations of what a phrase's two words, and the phrase itself, add to both scores.
    def scores(rng: np.random.Generator, first: np.ndarray, second: np.ndarray) -> Scores:
        of_race = _linked(rng, first.max() + 1, rho, race)
        of_gender = _linked(rng, second.max() + 1, rho, gender)
        found: Scores = of_race[:, first] + of_gender[:, second] + _linked(rng, len(first), rho, own)
        return found

    return scores


def _parents(rng: np.random.Generator, first: np.ndarray, second: np.ndarray) -> Scores:
    faces = _linked(rng, max(first.max(), second.max()) + 1, 0.8)
    found: Scores = (faces[:, first] + faces[:, second]) / 2 + _linked(rng, len(first), 0.3, 0.3)
    return found
