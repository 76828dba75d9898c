"""Simulate populations of targets with different rhos, and draw samples of clustered targets from them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from src.studies.shared.cluster_jackknife import list_cluster_columns

# Absolute value at which the simulated intrinsic scores saturate.
BOUND = 1.4
# Share of targets in each tail: 25 of 900.
EXTREME = 25 / 900
# Added to the outcome of the first group, before it meets any bound.
SHIFT = 0.4
# Share of the variance of both scores that two models have in common.
COMMON = 0.5
# Number of units from which the truth is computed at once.
CHUNK = 200_000
# Race words that are plurals of another, of the 12 words of each race.
PLURALS = (3, 3, 5)

# [models, 2, n]: intrinsic and extrinsic score in each model.
Scores = np.ndarray
# (rng, normal scores with the shift of the first group) -> scores.
Shape = Callable[[np.random.Generator, Scores], Scores]


@dataclass(frozen=True)
class Population:
    """A population of targets."""

    name: str  # description of the population
    # (rng) -> units of a sample: `group`, of which 0 is analysed, and clusters, in columns as in
    # `src.stimuli.clusters.assign_clusters`; `race_word`, if words have terms of their own.
    members: Callable[[np.random.Generator], pd.DataFrame]
    # Standard deviation of the terms that both scores sum: of each cluster, by the name of its column, and of
    # each `unit`; parents' terms are averaged.
    deviations: Mapping[str, float] = field(default_factory=lambda: {"unit": 1.0})
    shape: Shape = lambda _, scores: scores  # turns the sums into scores
    rho: float = 0.8  # correlation of the terms of both scores
    is_rated: bool = False  # whether targets have ratings, so that the level is the change per SD of these
    is_fixed: bool = False  # whether the sample fixes the mean outcome: only rho has an interval to check

    def sample(self, rng: np.random.Generator, rhos: Sequence[float] = ()) -> tuple[pd.DataFrame, Scores]:
        """Draw the units of a sample and their scores, in models of the given rhos or in one of `rho`.

        Rated units have `valence`, which is as similar to the intrinsic score as that of another model.
        """
        members = self.members(rng)
        scores = self._scores(rng, members, rhos)
        if self.is_rated:
            members = members.assign(valence=scores[-1, 0])
        return members, scores

    def truth(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Compute rho, group mean and level of the population from `size` units that share no cluster."""
        chunks = [self._independent(rng, min(size, CHUNK)) for _ in range(max(1, size // CHUNK))]
        return np.asarray(np.mean(chunks, axis=0))

    def _independent(self, rng: np.random.Generator, size: int) -> np.ndarray:
        sample = self.members(rng)
        first, others = (
            self._scores(rng, distinct(sample, size).assign(group=group), ()) for group in (0, 1)
        )
        y, rho = first[0, 1], stats.spearmanr(*first[0]).statistic
        if self.is_rated:
            level = np.cov(first[-1, 0], y, ddof=0)[0, 1] / first[-1, 0].std()
        else:
            level = y.mean() - others[0, 1].mean()
        return np.array([rho, y.mean(), level])

    def _scores(self, rng: np.random.Generator, members: pd.DataFrame, rhos: Sequence[float]) -> Scores:
        correlations = [*rhos] or [self.rho] * (2 if self.is_rated else 1)
        total = np.zeros((len(correlations), 2, len(members)))
        for name, deviation in self.deviations.items():
            columns = [column for column in map(str, members) if column.startswith(name)]
            levels = members[columns].to_numpy().T if columns else np.arange(len(members))[None]
            _, places = np.unique(levels, return_inverse=True)
            terms = deviation * _correlated(rng, int(places.max()) + 1, correlations)
            total += terms[..., places.reshape(levels.shape)].mean(axis=-2)
        total[:, 1] += SHIFT * (members["group"] == 0).to_numpy()
        return self.shape(rng, total)


def populations() -> Iterator[Population]:
    """Yield all populations on which the intervals are checked."""
    yield Population("300 persons a group", partial(_singles, 300))
    yield Population("30 persons a group", partial(_singles, 30))
    yield Population("60 persons a group, bounded, skewed", partial(_singles, 60), shape=_skewed)
    yield Population("ties: share of 10", partial(_singles, 300), shape=_tied, rho=0.9)
    yield Population("saturated, and ties", partial(_singles, 300), shape=_saturated_and_tied, rho=0.9)
    yield Population("uneven variance", partial(_singles, 300), shape=_uneven, rho=0)
    yield Population("the 50 extremes of 900", partial(_singles, 50), shape=_extremes, rho=0, is_fixed=True)
    words = {"cluster": 1.0, "unit": 0.5}
    yield Population("800 words of unequal families", partial(_families, 800), words, is_rated=True)
    yield Population(
        "200 words of families, bounded, skewed", partial(_families, 200), words, _skewed, 0.8, True
    )
    both = _phrases(1, 1, 0.5)
    yield Population("labels 36 × 24, both words count", _labels, both)
    yield Population("labels 36 × 24, race word counts", _labels, _phrases(1, 0.3, 0.3))
    yield Population("labels 36 × 24, phrase counts most", _labels, _phrases(0.5, 0.5, 1))
    yield Population("labels 36 × 24, bounded, skewed", _labels, both, _skewed)
    yield Population("labels 36 × 24, weak rho", _labels, both, rho=0.2)
    yield Population("labels 36 × 24, strong rho", _labels, both, rho=0.95)
    parents = {"parent": 1.4, "unit": 0.3}
    yield Population("200 morphs of 30 parents a group", partial(morphs, 30, 200), parents)
    yield Population("200 morphs of 30 parents, bounded, skewed", partial(morphs, 30, 200), parents, _skewed)
    yield Population("28 morphs of 8 parents a group", partial(morphs, 8, 28), parents)
    for originals, count in ((60, 30), (60, 60), (90, 910)):
        name = f"{originals} originals and {count} of their morphs a group"
        yield Population(name, partial(morphs, originals, count, with_originals=True), parents)


def ways_of(members: pd.DataFrame) -> pd.DataFrame:
    """Return the clusters of units, by name."""
    return members[list_cluster_columns(members)].map("{:05d}".format)


def morphs(
    parents: int, count: int, rng: np.random.Generator, *, with_originals: bool = False
) -> pd.DataFrame:
    """Draw morphs of pairs of parents in four groups, with the parents' own faces if `with_originals`."""
    pairs = np.stack(np.triu_indices(parents, 1), axis=1)
    faces = []
    for group in range(4):
        drawn = pairs[rng.choice(len(pairs), count, replace=False)]
        originals = np.repeat(np.arange(parents if with_originals else 0), 2).reshape(-1, 2)
        faces.append(np.concatenate([originals, drawn]) + parents * group)
    frame = pd.DataFrame(np.concatenate(faces), columns=["parent_a", "parent_b"])
    return frame.assign(group=np.repeat(np.arange(4), len(faces[0])))


def distinct(sample: pd.DataFrame, size: int) -> pd.DataFrame:
    """Return units that share no cluster; as many of them as in the sample are originals with one parent."""
    numbers = np.arange(size)
    columns = {str(name): numbers for name in sample if name != "group"}
    if "parent_b" in columns:
        is_original = (sample["parent_a"] == sample["parent_b"]).to_numpy()
        columns["parent_b"] = np.where(is_original[numbers % len(sample)], numbers, numbers + size)
    return pd.DataFrame(columns)


def _singles(count: int, _: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame({"cluster": np.arange(2 * count), "group": np.repeat([0, 1], count)})


def _families(count: int, rng: np.random.Generator) -> pd.DataFrame:
    sizes = rng.geometric(0.45, count)
    return pd.DataFrame({"cluster": np.repeat(np.arange(count), sizes)[:count], "group": 0})


def _labels(_: np.random.Generator) -> pd.DataFrame:
    race, gender = np.divmod(np.arange(36 * 24), 24)
    lemmas = [np.arange(12) % (12 - plurals) + 12 * number for number, plurals in enumerate(PLURALS)]
    lemma = np.concatenate(lemmas)[race]
    columns = {"race_lemma": lemma, "gender_lemma": gender, "race_word": race}
    return pd.DataFrame(columns).assign(group=race // 12 * 2 + gender // 12)


def _phrases(race: float, gender: float, phrase: float) -> dict[str, float]:
    return {"race_lemma": race, "gender_lemma": gender, "race_word": 0.3 * race, "unit": phrase}


def _correlated(rng: np.random.Generator, size: int, rhos: Sequence[float]) -> Scores:
    """Draw normal pairs that correlate by rho in each model, [models, 2, size]; models share a part."""
    common = rng.standard_normal((2, size))
    unshared = rng.standard_normal((len(rhos), 2, size))
    x, noise = (np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * unshared).swapaxes(0, 1)
    rho = np.array(rhos)[:, None]
    return np.stack([x, rho * x + np.sqrt(1 - rho**2) * noise], axis=1)


def _skewed(_: np.random.Generator, scores: Scores) -> Scores:
    return np.stack([scores[:, 0], np.minimum(np.exp(scores[:, 1] - 1), 1)], axis=1)


def _tied(rng: np.random.Generator, scores: Scores) -> Scores:
    return np.stack([scores[:, 0], _binomial_share(rng, scores[:, 1])], axis=1)


def _binomial_share(rng: np.random.Generator, latent: np.ndarray) -> np.ndarray:
    return np.asarray(rng.binomial(10, 1 / (1 + np.exp(-latent))) / 10)


def _saturated_and_tied(rng: np.random.Generator, scores: Scores) -> Scores:
    effect = BOUND * np.tanh(2 * scores[:, 0]) + 0.1 * rng.standard_normal(scores[:, 0].shape)
    return np.stack([effect.clip(-BOUND, BOUND), _binomial_share(rng, 2 * scores[:, 1])], axis=1)


def _uneven(_: np.random.Generator, scores: Scores) -> Scores:
    x, noise = scores.swapaxes(0, 1)
    return np.stack([x, x + (0.1 + x**2) * noise], axis=1)


def _extremes(rng: np.random.Generator, scores: Scores) -> Scores:
    # Half of the targets have the lowest valences, half the highest: both scores separate the halves.
    tail = stats.norm.ppf(stats.norm.cdf(rng.standard_normal(scores.shape[-1])) * EXTREME)
    return np.asarray(np.where(np.arange(scores.shape[-1]) % 2, tail, -tail) + 0.8 * scores)
