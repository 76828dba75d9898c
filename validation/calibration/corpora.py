"""Draw experiments from populations of targets and corpora, whose rho without noise is known.

Each world has new clusters of the corpus and new targets; what its numbers estimate is computed from a corpus
with many more clusters.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from src.studies.propagation import experiment
from validation.calibration import worlds
from validation.calibration.seeds import generator
from validation.calibration.worlds import Experiment, Items

# Items of a cluster, and number of targets and of clusters (faces: of each group) in a world.
CLUSTER_SIZE, TARGETS, CLUSTERS = 2, 100, {"faces": 30, "scenes": 150}
GROUPS = ("group 0", "group 1", "group 2", "group 3")
# Share of the variance of the corpus's noise that items of a cluster share.
SHARED = 0.5
# The truth is computed from so many times more clusters and targets.
LARGE = 40


@dataclass(frozen=True)
class Corpora:
    """Population of corpora of a role, with targets to be scored.

    Attributes:
        role: faces, in groups, or scenes, with valence.
        strength: length of the direction of each group, or of valence, in units of the noise of the items.
        k: number of retrieved items.
    """

    role: str
    strength: float
    k: int

    @property
    def name(self) -> str:
        """Return the description of the population."""
        carried = "groups" if self.role == "faces" else "valence"
        return f"{self.role}, {carried} of strength {self.strength:g}"


def experiment_of(corpora: Corpora, rng: np.random.Generator, times: int = 1) -> Experiment:
    """Draw corpus and targets; `times` multiplies numbers of clusters, retrieved items, extremes and targets."""
    clusters = times * CLUSTERS[corpora.role]
    words = _words(rng, min(times, 20) * TARGETS)
    corpus = worlds.stimuli(corpora.role, *items_of(corpora, rng, clusters), rng)
    targets = worlds.stimuli("words", *words, rng)
    protocol = replace(
        worlds.PROTOCOL, placebo=0, k=times * corpora.k, extremes=times * 25, set_size=times * 840
    )
    return Experiment(targets[0], corpus[0], targets[1], corpus[1], protocol, int(rng.integers(2**31)))


def items_of(corpora: Corpora, rng: np.random.Generator, clusters: int) -> Items:
    """Draw the items of a corpus with so many clusters (faces: in each group), and their vectors."""
    directions = generator(f"directions, {corpora.role}", 0).standard_normal((len(GROUPS), worlds.WIDTH))
    directions *= corpora.strength / np.linalg.norm(directions, axis=1, keepdims=True)
    is_grouped = corpora.role == "faces"
    cluster = np.repeat(np.arange(clusters * (len(GROUPS) if is_grouped else 1)), CLUSTER_SIZE)
    noise = np.sqrt(SHARED) * rng.standard_normal((cluster[-1] + 1, worlds.WIDTH))[cluster]
    noise += np.sqrt(1 - SHARED) * rng.standard_normal((len(cluster), worlds.WIDTH))
    frame = pd.DataFrame({"name": [f"i{number:06d}" for number in range(len(cluster))]})
    frame["cluster"] = [f"c{number:06d}" for number in cluster]
    if is_grouped:
        group = cluster % len(GROUPS)
        return frame.assign(group=np.array(GROUPS)[group]), directions[group] + noise
    valence = worlds.ratings(cluster, rng)
    return frame.assign(valence=valence), 3 * (valence - 0.5)[:, None] * directions[0] + noise


def _words(rng: np.random.Generator, count: int) -> Items:
    """Draw targets whose vectors are spread in all directions; their ratings have no effect on rho."""
    frame = pd.DataFrame({"name": [f"w{number:05d}" for number in range(count)]})
    return frame.assign(valence=rng.uniform(size=count)), rng.standard_normal((count, worlds.WIDTH))


def truth_of(corpora: Corpora, times: int = LARGE) -> float:
    """Compute the rho of a large corpus, in which noise is small."""
    inputs = experiment_of(corpora, generator(f"truth, {corpora.name}", 0), times)
    return float(experiment.run(*vars(inputs).values()).analyses["rho"].iloc[0])
