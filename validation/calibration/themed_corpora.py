"""Draw experiments from populations of corpora and targets, whose rho without noise is known.

Each world has new clusters of the corpus and new targets; what it estimates is computed from a corpus with
many more clusters. The method's clusters and halves are not used.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from src.studies.propagation import experiment
from validation.calibration import worlds
from validation.calibration.bounds import generator
from validation.calibration.worlds import Experiment, Items

# Targets of a world, clusters of its corpus (faces: of each group), and items of a cluster.
TARGETS, CLUSTERS, CLUSTER_SIZE = 100, {"faces": 30, "scenes": 150}, 2
GROUPS = ("group 0", "group 1", "group 2", "group 3")
# Themes of scenes, or of the faces of a group: places in the space of vectors, the same in all worlds. They
# retrieve by place what A and B measure by direction, so that rho without noise is below 1.
THEMES = 20
# Share of the variance of ratings that is that of themes, and of the vectors' noise that clusters share.
RATED, SHARED = 0.6, 0.5
# The truth is computed from so many times more clusters and targets.
LARGE = 40


@dataclass(frozen=True)
class Corpora:
    """Population of corpora of a role, with targets to be scored.

    Attributes:
        role: faces, in groups, or scenes, with valence.
        strength: length of the themes' vectors, in units of the noise of an item in a direction.
        k: number of retrieved items.
    """

    role: str
    strength: float
    k: int

    @property
    def name(self) -> str:
        """Return the description of the population."""
        return f"{self.role}, themes of strength {self.strength:g}"


def experiment_of(corpora: Corpora, rng: np.random.Generator, times: int = 1) -> Experiment:
    """Draw corpus and targets; `times` multiplies their numbers, `k` and the sizes of A and B."""
    targets = worlds.stimuli("words", *_words(rng, times * TARGETS), rng)
    corpus = worlds.stimuli(corpora.role, *items_of(corpora, rng, times), rng)
    protocol = replace(worlds.PROTOCOL, placebo=0, k=times * corpora.k)
    protocol.extremes, protocol.set_size = times * protocol.extremes, times * protocol.set_size
    return Experiment(targets[0], corpus[0], targets[1], corpus[1], protocol, int(rng.integers(2**31)))


def items_of(corpora: Corpora, rng: np.random.Generator, times: int = 1) -> Items:
    """Draw the items of a corpus and their vectors; `times` multiplies the number of clusters."""
    fixed, is_grouped = generator(f"themes of {corpora.role}", 0), corpora.role == "faces"
    clusters = times * CLUSTERS[corpora.role] * (len(GROUPS) if is_grouped else 1)
    cluster = np.repeat(np.arange(clusters), CLUSTER_SIZE)
    group, theme = cluster % len(GROUPS), rng.integers(THEMES, size=clusters)[cluster]
    themes = fixed.standard_normal((len(GROUPS), THEMES, worlds.WIDTH))
    ratings = fixed.standard_normal(THEMES)
    if is_grouped:
        themes += fixed.standard_normal((len(GROUPS), 1, worlds.WIDTH))
    else:
        themes += ratings[:, None] * fixed.standard_normal(worlds.WIDTH)
        group = np.zeros_like(group)
    noise = np.sqrt(SHARED) * rng.standard_normal((clusters, worlds.WIDTH))[cluster]
    noise += np.sqrt(1 - SHARED) * rng.standard_normal((len(cluster), worlds.WIDTH))
    vectors = corpora.strength * themes[group, theme] / np.sqrt(2) + noise
    frame = pd.DataFrame({"name": [f"i{number:06d}" for number in range(len(cluster))]})
    frame["cluster"] = [f"c{number:06d}" for number in cluster]
    if is_grouped:
        return frame.assign(group=np.array(GROUPS)[group]), vectors
    unshared = rng.standard_normal(len(cluster))
    return frame.assign(
        valence=stats.norm.cdf(np.sqrt(RATED) * ratings[theme] + np.sqrt(1 - RATED) * unshared)
    ), vectors


def _words(rng: np.random.Generator, count: int) -> Items:
    """Draw targets whose vectors have all directions; rho does not depend on their ratings."""
    frame = pd.DataFrame({"name": [f"w{number:05d}" for number in range(count)]})
    return frame.assign(valence=rng.uniform(size=count)), rng.standard_normal((count, worlds.WIDTH))


def truth_of(corpora: Corpora, times: int = LARGE) -> float:
    """Compute the rho of a large corpus, in which noise is small."""
    inputs = experiment_of(corpora, generator(f"truth of {corpora.name}", 0), times)
    return float(experiment.run(*vars(inputs).values()).analyses["rho"].iloc[0])
