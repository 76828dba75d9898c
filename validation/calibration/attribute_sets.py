"""Compare SDs of rho over sets A and B of one corpus with its SD over independent corpora."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from src.metrics import cosines, normalise, sc_eats, spearman
from src.studies.propagation import experiment
from src.studies.propagation.attributes import Corpus, SetPair, corpus_of
from src.studies.propagation.units import units_of
from validation.calibration import themed_corpora, worlds
from validation.calibration.bounds import generator
from validation.calibration.themed_corpora import Corpora
from validation.calibration.worlds import Experiment

# Splits of a corpus, and draws of overlapping sets; independent corpora of a world.
DRAWS, CORPORA = 20, 5
# Limits of estimated / true SD where A and B are not in the corpus that is retrieved from.
MIN_RATIO, MAX_RATIO = 0.8, 1.2


class Spread(NamedTuple):
    """Variances of rho over sets A and B in a world.

    Attributes:
        halves: estimated from disjoint halves of the corpus.
        true_halves: over sets from half of an independent corpus each.
        redrawn: over sets that are drawn again from the same corpus and overlap.
        true_redrawn: over sets of that size from an independent corpus each.
    """

    halves: float
    true_halves: float
    redrawn: float
    true_redrawn: float


def kinds() -> list[tuple[Corpora, str]]:
    """Return populations of corpora with groups and with valence, each with `protocol.attributes`."""
    populations = Corpora("faces", 1.0, 20), Corpora("scenes", 2.0, 20)
    return [*product(populations, reversed(worlds.ATTRIBUTES))]


def spread_of(kind: tuple[Corpora, str], number: int) -> Spread:
    """Measure the variances in a world of this number."""
    population, attributes = kind
    rng = generator(f"sets A and B, {population.name}, {attributes}", number)
    inputs = themed_corpora.experiment_of(population, rng)
    protocol = replace(inputs.protocol, attributes=attributes, attribute_draws=DRAWS)
    inputs = replace(inputs, protocol=protocol)
    result = experiment.run(*vars(inputs).values())
    stratum = result.analyses["stratum"][0]
    outcome = result.targets.loc[result.targets["stratum"] == stratum, "extrinsic"].to_numpy()
    corpus = corpus_of(inputs.corpus, protocol, inputs.seed)
    redrawn = [_rho(inputs, inputs.corpus_vectors, _redraw(corpus, rng), outcome) for _ in range(DRAWS)]
    of_halves, of_corpora = [], []
    for _ in range(CORPORA):
        table, vectors = worlds.stimuli(population.role, *themed_corpora.items_of(population, rng), rng)
        other = corpus_of(table, protocol, inputs.seed)
        of_halves.append(_rho(inputs, vectors, other.redraw(1)[0][0], outcome))
        of_corpora.append(_rho(inputs, vectors, _redraw(other, rng), outcome))
    halves = float(result.analyses["sd_attributes"][0]) ** 2
    return Spread(halves, *(float(np.var(rhos, ddof=1)) for rhos in (of_halves, redrawn, of_corpora)))


def _rho(inputs: Experiment, vectors: torch.Tensor, sets: SetPair, outcome: np.ndarray) -> float:
    similarities = cosines(normalise(inputs.target_vectors), normalise(vectors))
    a, b = sets
    scores = sc_eats(similarities, a[:1], b[0], inputs.protocol.ddof)
    return spearman(units_of(inputs.targets, inputs.protocol).average(scores.numpy())[:, 0], outcome).rho


def _redraw(corpus: Corpus, rng: np.random.Generator) -> SetPair:
    """Draw a random half of each of A and B of valence, or sets of the first group, of the same sizes."""
    (pool,) = corpus.pools
    if corpus.properties == [None]:
        a, b = (rng.permutation(sets[0])[: len(sets[0]) // 2] for sets in (pool.a, pool.b))
        return [a], [b]
    size, groups = len(pool.a[0]), np.where(corpus.drawable, corpus.table.frame["group"], "")
    shuffled = [rng.permutation(np.flatnonzero(groups == group)) for group in corpus.properties]
    b = np.concatenate([rows[-(size // len(shuffled)) :] for rows in shuffled])
    return [shuffled[0][:size]], [b]


def tabulate(measured: Sequence[tuple[tuple[Corpora, str], Sequence[Spread]]], few: bool) -> pd.DataFrame:
    """Summarise by kind the SDs (root of the mean variance), and their ratios to the true SDs.

    `measured` has kinds, with the variances of each world; `few` worlds widen the limits of the ratio.
    """
    rows = []
    for (population, attributes), spreads in measured:
        variances = pd.DataFrame(spreads, columns=Spread._fields)
        sd = variances.mean() ** 0.5
        # Three standard errors of a ratio, relative to it; the variances of worlds are taken as independent.
        errors = (variances.std() / variances.mean())[["halves", "true_halves"]] / np.sqrt(len(spreads)) / 2
        slack = 1 + 3 * float(np.hypot(*errors)) * few
        row: dict[str, Any] = {"world": population.name, "attributes": attributes, "worlds": len(spreads)}
        row |= {"sd_attributes": sd["halves"], "true_sd": sd["true_halves"]}
        row |= {"ratio": sd["halves"] / sd["true_halves"], "sd_redrawn": sd["redrawn"]}
        row |= {"true_redrawn": sd["true_redrawn"], "ratio_redrawn": sd["redrawn"] / sd["true_redrawn"]}
        # Sets in the corpus that is retrieved from move with the outcome, independent ones do not.
        holds = row["ratio_redrawn"] < row["ratio"] * slack and row["ratio"] <= MAX_RATIO * slack
        holds &= attributes != "held_out" or row["ratio"] >= MIN_RATIO / slack
        rows.append(row | {"holds": bool(holds)})
    return pd.DataFrame(rows)
