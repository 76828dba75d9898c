"""Small experiments in which nothing about the corpus's property can be told from its vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from src.configs import ProtocolConfig
from src.stimuli import CARRIES, TEXT_ROLES, Table
from src.studies.propagation.attributes import corpus_of
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.null_models import alternatives
from src.studies.propagation.null_scores import Sample
from src.studies.propagation.scores import Scores
from src.studies.propagation.similarity_blocks import looks
from src.studies.propagation.units import strata, units_of
from src.studies.shared.p_values import reached

ALPHA = 0.05
# The band of a share of worlds that holds a true share of 5% with this probability.
BAND, CERTAINTY = 0.99, 0.999
TEMPLATES = ("a {}", "the {}")
RACES, GENDERS = "PQ", "MN"
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
        planted: vectors carry group, valence and words, and the corpus's property is then exchanged
            once; else vectors are noise.
        attributes: corpus or held_out.
    """

    targets: str
    corpus: str
    planted: bool
    attributes: str


def nulls() -> Iterator[Null]:
    """Every kind of corpus with every kind of targets."""
    for planted, attributes in ((False, "corpus"), (True, "corpus"), (True, "held_out")):
        for corpus, others in {
            "words": ("faces", "scenes"),
            "scenes": ("labels", "words"),
            "labels": ("faces", "scenes"),
            "faces": ("labels", "words"),
        }.items():
            for targets in others:
                yield Null(targets, corpus, planted, attributes)


@dataclass(frozen=True)
class Experiment:
    """What `src.studies.propagation.experiment.run` takes.

    Attributes:
        targets, corpus: the stimuli.
        target_vectors, corpus_vectors: [N, D].
        protocol: sizes.
        seed: number of the world.
    """

    targets: Table
    corpus: Table
    target_vectors: Tensor
    corpus_vectors: Tensor
    protocol: ProtocolConfig
    seed: int


def experiment(null: Null, number: int) -> Experiment:
    """One world.

    Args:
        null: the kind.
        number: of the world, which seeds it.
    """
    rng = np.random.default_rng([2, number])
    directions = rng.standard_normal((len(RACES) + len(GENDERS) + 1, WIDTH)) * null.planted
    items = {role: _items(role, rng) for role in (null.targets, null.corpus)}
    near = {role: _vectors(items[role], directions, rng) for role in items}
    if null.planted:
        items[null.corpus] = exchanged(items[null.corpus], rng)
    targets, target_vectors = _shown(null.targets, items[null.targets], near[null.targets], rng)
    corpus, corpus_vectors = _shown(null.corpus, items[null.corpus], near[null.corpus], rng)
    protocol = replace(PROTOCOL, attributes=null.attributes)
    return Experiment(targets, corpus, target_vectors, corpus_vectors, protocol, number)


def p_value(null: Null, number: int) -> float:
    """p_placebo of one stratum of one world; strata take turns.

    Nothing else of the experiment is computed: a thousand worlds are asked for.
    """
    world = experiment(null, number)
    corpus = corpus_of(world.corpus, world.protocol, world.seed)
    units = units_of(world.targets, world.protocol)
    analyses = list(strata(world.targets, units, corpus.contents, world.protocol))
    # The placebo comes first of the alternatives.
    placebo = next(alternatives(corpus, world.corpus_vectors))
    vectors = world.target_vectors, world.corpus_vectors
    measure, outcome = intrinsic_of(world.protocol), extrinsic_of(world.protocol)
    sample = Sample(units, [analyses[number % len(analyses)]], corpus, [placebo], *vectors, measure, outcome)
    scores = Scores(*vectors, corpus.pools, measure, sample.scorer, world.protocol)
    for look in looks(*vectors, corpus.pools):
        scores.see(look)
        sample.see(look)
    intrinsic, extrinsic = units.averaged(scores.intrinsic), units.averaged(scores.extrinsic)
    ((_, _, rhos),) = sample.rhos(intrinsic, extrinsic)
    return reached(rhos, sample.observed(0, intrinsic, extrinsic)[0])


def _items(role: str, rng: np.random.Generator) -> pd.DataFrame:
    """Images, words or phrases, sorted by name, with what they carry."""
    if CARRIES[role] == "valence":
        names = [f"{role[0]}{number:03d}" for number in range(COUNT[role])]
        return pd.DataFrame({"name": names, "valence": rng.uniform(size=len(names))})
    if role == "faces":
        rows = [(r, g, f"{r}{g}{i:02d}") for r in RACES for g in GENDERS for i in range(COUNT[role])]
        found = pd.DataFrame(rows, columns=["race", "gender", "name"])
    else:
        words = [(f"{r}{i}", f"{g}{j}") for r in RACES for i in range(5) for g in GENDERS for j in range(4)]
        found = pd.DataFrame(words, columns=["race_word", "gender_word"])
        found["name"] = found["race_word"] + " " + found["gender_word"]
        found["race"], found["gender"] = found["race_word"].str[0], found["gender_word"].str[0]
    return found.assign(group=found["race"] + found["gender"])


def _vectors(items: pd.DataFrame, directions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise, and in the given directions race, gender and valence; phrases of one word are alike."""
    found = rng.standard_normal((len(items), WIDTH))
    if "valence" in items:
        found += 4 * (items[["valence"]].to_numpy() - 0.5) * directions[-1]
        return found
    for place, name in enumerate([*RACES, *GENDERS]):
        found += (items["group"].str[place // 2] == name).to_numpy()[:, None] * directions[place]
    for column in [name for name in ("race_word", "gender_word") if name in items]:
        number, words = pd.factorize(items[column])
        found += directions.any() * rng.standard_normal((len(words), WIDTH))[number]
    return found


def exchanged(items: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The same items with their property exchanged once; of phrases race words and gender words."""
    if "valence" in items:
        return items.assign(valence=rng.permutation(items["valence"]))
    if "race_word" not in items:
        return items.assign(group=rng.permutation(items["group"]))
    parts = []
    for column in ("race_word", "gender_word"):
        words = items[column].unique()
        parts.append(items[column].map(dict(zip(words, rng.permutation(words), strict=True))).str[0])
    return items.assign(group=parts[0] + parts[1])


def _shown(
    role: str, items: pd.DataFrame, near: np.ndarray, rng: np.random.Generator
) -> tuple[Table, Tensor]:
    """Table and vectors; of texts one row per template, each a little off."""
    if role in TEXT_ROLES:
        rows = np.repeat(np.arange(len(items)), len(TEMPLATES))
        near = near[rows] + 0.5 * rng.standard_normal((len(rows), WIDTH))
        items = items.iloc[rows].assign(word=items["name"].to_numpy()[rows])
        items["template"] = list(TEMPLATES) * (len(rows) // len(TEMPLATES))
        items["sentence"] = items["id"] = items["word"] + " " + items["template"]
    else:
        items = items.assign(id=items["name"])
    # Names are of one length, so rows are sorted by id.
    return Table(role, items.reset_index(drop=True), len(items)), torch.from_numpy(near)


def tabulate(measured: Sequence[tuple[Null, Sequence[float]]], quick: bool) -> pd.DataFrame:
    """One row per kind: the share of worlds with p at most 5%, and whether it is inside the band.

    Args:
        measured: kind, and p of its worlds; NaN where no rho is defined there: counted, and left out.
        quick: worlds are few and kinds are many: a wider band.
    """
    rows = []
    for null, found in measured:
        p = np.asarray(found, dtype=float)
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
                "undefined": len(found) - worlds,
                "low": low,
                "high": high,
                "share": share,
                "holds": bool(low <= share <= high),
                "mean_p": float(np.mean(p)),
            }
        )
    return pd.DataFrame(rows)
