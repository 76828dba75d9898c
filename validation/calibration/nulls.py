"""Simulate small experiments in which the corpus's property is unrelated to its vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from src.configs import ProtocolConfig
from src.metrics import permutation_p
from src.stimuli import CARRIES, TEXT_ROLES, Table
from src.studies.propagation.attributes import corpus_of
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.null_models import draw_null_models
from src.studies.propagation.null_scores import Sample
from src.studies.propagation.scores import Scores
from src.studies.propagation.similarity_blocks import similarity_blocks
from src.studies.propagation.units import strata, units_of

ALPHA = 0.05
# Probability that the measured share of worlds is inside its band if the true share is 5%: in full runs, and
# in runs with few worlds.
BAND, CERTAINTY = 0.99, 0.999
TEMPLATES = ("a {}", "the {}")
# Each letter is the name of a race or gender.
RACES, GENDERS = "PQ", "MN"
# Number of items of a role; of faces, per race and gender.
COUNT = {"words": 100, "scenes": 160, "faces": 40}
WIDTH = 8
PROTOCOL = ProtocolConfig(
    k=30,
    extremes=10,
    set_size=40,
    ddof=1,
    unit="item",
    targets="extremes",
    strata="own",
    attributes="corpus",
    pooling="max",
    placebo=99,
    bootstrap=0,
    attribute_draws=0,
    property_draws=0,
)


@dataclass(frozen=True)
class Null:
    """A kind of experiment without an effect.

    Attributes:
        targets, corpus: roles.
        planted: whether vectors carry group, valence and words; the corpus's property is then permuted
            once. Otherwise vectors are noise.
        attributes: `protocol.attributes`: "corpus" or "held_out".
    """

    targets: str
    corpus: str
    planted: bool
    attributes: str


def nulls() -> Iterator[Null]:
    """Yield the kinds: each corpus with two roles of targets, as noise, planted, and held out."""
    for planted, attributes in ((False, "corpus"), (True, "corpus"), (True, "held_out")):
        for corpus, target_roles in {
            "words": ("faces", "scenes"),
            "scenes": ("labels", "words"),
            "labels": ("faces", "scenes"),
            "faces": ("labels", "words"),
        }.items():
            for targets in target_roles:
                yield Null(targets, corpus, planted, attributes)


@dataclass(frozen=True)
class Experiment:
    """Arguments of `src.studies.propagation.experiment.run`, in its order.

    Attributes:
        targets, corpus: tables of the stimuli.
        target_vectors, corpus_vectors: vectors of their rows, [N, D].
        protocol: protocol of the experiment.
        seed: random seed, the number of the world.
    """

    targets: Table
    corpus: Table
    target_vectors: Tensor
    corpus_vectors: Tensor
    protocol: ProtocolConfig
    seed: int


def experiment(null: Null, number: int) -> Experiment:
    """Draw a world, which is an experiment of a kind.

    Args:
        null: kind of the experiment.
        number: number of the world, its random seed.
    """
    rng = np.random.default_rng([2, number])
    directions = rng.standard_normal((len(RACES) + len(GENDERS) + 1, WIDTH)) * null.planted
    items = {role: _items(role, rng) for role in (null.targets, null.corpus)}
    vectors = {role: _vectors(items[role], directions, rng) for role in items}
    if null.planted:
        items[null.corpus] = permute_property(items[null.corpus], rng)
    targets, target_vectors = _stimuli(null.targets, items[null.targets], vectors[null.targets], rng)
    corpus, corpus_vectors = _stimuli(null.corpus, items[null.corpus], vectors[null.corpus], rng)
    protocol = replace(PROTOCOL, attributes=null.attributes)
    return Experiment(targets, corpus, target_vectors, corpus_vectors, protocol, number)


def p_value(null: Null, number: int) -> float:
    """Compute p_placebo of one stratum of a world; consecutive worlds use different strata.

    To save time, only this part of the experiment is computed.
    """
    world = experiment(null, number)
    corpus = corpus_of(world.corpus, world.protocol, world.seed)
    units = units_of(world.targets, world.protocol)
    analyses = list(strata(world.targets, units, corpus.properties, world.protocol))
    # The placebo is the first of the null models.
    placebo = next(draw_null_models(corpus, world.corpus_vectors))
    vectors = world.target_vectors, world.corpus_vectors
    measure, outcome = intrinsic_of(world.protocol), extrinsic_of(world.protocol)
    sample = Sample(units, [analyses[number % len(analyses)]], corpus, [placebo], *vectors, measure, outcome)
    scores = Scores(*vectors, corpus.pools, measure, sample.scorer, world.protocol)
    for block in similarity_blocks(*vectors, corpus.pools):
        scores.add(block)
        sample.add(block)
    intrinsic, extrinsic = units.average(scores.intrinsic), units.average(scores.extrinsic)
    ((_, _, rhos),) = sample.rhos(intrinsic, extrinsic)
    return permutation_p(rhos, sample.observed(0, intrinsic, extrinsic)[0])


def _items(role: str, rng: np.random.Generator) -> pd.DataFrame:
    """Draw images, words or phrases, sorted by name, with their valence, or their race, gender and group."""
    if CARRIES[role] == "valence":
        names = [f"{role[0]}{number:03d}" for number in range(COUNT[role])]
        return pd.DataFrame({"name": names, "valence": rng.uniform(size=len(names))})
    if role == "faces":
        rows = [(r, g, f"{r}{g}{i:02d}") for r in RACES for g in GENDERS for i in range(COUNT[role])]
        frame = pd.DataFrame(rows, columns=["race", "gender", "name"])
    else:  # phrases of one of five words per race and one of four per gender
        words = [(f"{r}{i}", f"{g}{j}") for r in RACES for i in range(5) for g in GENDERS for j in range(4)]
        frame = pd.DataFrame(words, columns=["race_word", "gender_word"])
        frame["name"] = frame["race_word"] + " " + frame["gender_word"]
        frame["race"], frame["gender"] = frame["race_word"].str[0], frame["gender_word"].str[0]
    return frame.assign(group=frame["race"] + frame["gender"])


def _vectors(items: pd.DataFrame, directions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw noise; add race and gender, or valence, along the given directions, and a vector of each word."""
    vectors = rng.standard_normal((len(items), WIDTH))
    if "valence" in items:
        vectors += 4 * (items[["valence"]].to_numpy() - 0.5) * directions[-1]
        return vectors
    for number, name in enumerate([*RACES, *GENDERS]):
        position = number // len(RACES)  # a group is named by the letters of its race and its gender
        vectors += (items["group"].str[position] == name).to_numpy()[:, None] * directions[number]
    for column in [name for name in ("race_word", "gender_word") if name in items]:
        word_of, words = pd.factorize(items[column])
        # Nothing is added if nothing is planted, that is, if all directions are 0.
        vectors += directions.any() * rng.standard_normal((len(words), WIDTH))[word_of]
    return vectors


def permute_property(items: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Assign permuted properties to items; to phrases, permuted race words and permuted gender words."""
    if "valence" in items:
        return items.assign(valence=rng.permutation(items["valence"]))
    if "race_word" not in items:
        return items.assign(group=rng.permutation(items["group"]))
    letters = []
    for column in ("race_word", "gender_word"):
        words = items[column].unique()
        letters.append(items[column].map(dict(zip(words, rng.permutation(words), strict=True))).str[0])
    return items.assign(group=letters[0] + letters[1])


def _stimuli(
    role: str, items: pd.DataFrame, vectors: np.ndarray, rng: np.random.Generator
) -> tuple[Table, Tensor]:
    """Return table and vectors; texts have one row per template, whose vectors differ by noise."""
    if role in TEXT_ROLES:
        rows = np.repeat(np.arange(len(items)), len(TEMPLATES))
        vectors = vectors[rows] + 0.5 * rng.standard_normal((len(rows), WIDTH))
        items = items.iloc[rows].assign(word=items["name"].to_numpy()[rows])
        items["template"] = list(TEMPLATES) * (len(rows) // len(TEMPLATES))
        items["sentence"] = items["id"] = items["word"] + " " + items["template"]
    else:
        items = items.assign(id=items["name"])
    # All names have the same length, so that rows are sorted by id.
    return Table(role, items.reset_index(drop=True), len(items)), torch.from_numpy(vectors)


def tabulate(measured: Sequence[tuple[Null, Sequence[float]]], quick: bool) -> pd.DataFrame:
    """Summarise, by kind, the share of worlds with p at most 5%, and whether it is inside its band.

    Args:
        measured: kinds and the p of their worlds; NaN, where rho is undefined, are counted and left out.
        quick: whether worlds are few, so that the band is widened.
    """
    rows = []
    for null, values in measured:
        p = np.asarray(values, dtype=float)
        p = p[~np.isnan(p)]
        worlds = len(p)
        low, high = np.array(stats.binom.interval(CERTAINTY if quick else BAND, worlds, ALPHA)) / worlds
        share = float(np.mean(p <= ALPHA))
        rows.append(
            {
                "corpus": null.corpus,
                "targets": null.targets,
                "vectors": "planted, exchanged" if null.planted else "noise",
                "attributes": null.attributes,
                "worlds": worlds,
                "undefined": len(values) - worlds,
                "low": low,
                "high": high,
                "share": share,
                "holds": bool(low <= share <= high),
                "mean_p": float(np.mean(p)),
            }
        )
    return pd.DataFrame(rows)
