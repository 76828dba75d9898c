"""Draw small experiments whose truth is known: tables and vectors, with a property that is null or planted.

The null is the world's own: clusters of the corpus get vectors and property independently of each other. It
does not use the method's clusters, permutations or halves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from src.configs import CHECKOUT, ProtocolConfig
from src.stimuli import TEXT_ROLES, Table
from validation.calibration.bounds import generator

TEMPLATES = ("a {}", "the {}")  # of words; labels have the first
WIDTH = 16
# Number of themes of OASIS by their number of scenes, 900 in all.
THEMES = {
    **{1: 90, 2: 40, 3: 28, 4: 21, 5: 21, 6: 11, 7: 7, 8: 9, 9: 6, 10: 5},
    **{11: 3, 12: 1, 14: 2, 17: 1, 22: 1, 23: 1, 31: 1},
}
# Ratings of OASIS, where `make data ARGS="fetch oasis"` puts them.
OASIS = CHECKOUT / "data" / "raw" / "oasis" / "OASIS.csv"
# Share of the variance, of ratings and of vectors, that items of a cluster share.
SHARED = 0.8
RACE_WORDS = {
    "Asian": "asian asians asian-american asian-americans chinese-american japanese-american chinese asiatic "
    "japanese korean koreans korean-american",
    "Black": "black blacks black-american afro-caribbean dark-skinned jamaican african africans ethiopian "
    "ethiopians african-american afro-american",
    "White": "white whites british caucasian caucasians light-skinned american americans european europeans "
    "englishman englishmen",
}
GENDER_WORDS = {
    "Men": "man son father brother grandfather nephew male boy sir uncle gentleman king",
    "Women": "woman daughter mother sister grandmother niece female girl madam aunt maiden queen",
}
# Suffixes that the stemmer removes: words of a family are a stem with the first of them.
SUFFIXES = ("", "s", "ed", "ing", "edly", "ingly")
FAMILY_GROUPS, FAMILIES, PARENTS = 4, 8, 5
PROTOCOL = ProtocolConfig(
    k=60,
    extremes=25,
    set_size=840,
    ddof=1,
    unit="item",
    targets="all",
    strata="own",
    attributes="corpus",
    pooling="max",
    placebo=99,
    bootstrap=0,
    attribute_draws=0,
    property_draws=0,
)

ATTRIBUTES = ("corpus", "held_out")  # of the protocol

# Items in any order with their vectors, [N, WIDTH].
Items = tuple[pd.DataFrame, np.ndarray]


@dataclass(frozen=True)
class Kind:
    """Kind of experiments."""

    name: str  # description of the corpus
    corpus: str  # role
    targets: str  # role
    # (rng) -> items of the corpus, with a property that is unrelated to their vectors.
    items: Callable[[np.random.Generator], Items]
    k: int  # number of retrieved items
    attributes: str = "corpus"  # `protocol.attributes`: "corpus" or "held_out"
    planted: float = 0.0  # strength of the groups in the vectors of the corpus; 0: null


@dataclass(frozen=True)
class Experiment:
    """Arguments of `src.studies.propagation.experiment.run`, in its order."""

    targets: Table
    corpus: Table
    target_vectors: Tensor  # vectors of the rows of a table, [N, D]
    corpus_vectors: Tensor
    protocol: ProtocolConfig
    seed: int  # random seed of the method, the number of the world


def kinds() -> list[Kind]:
    """Return the kinds of null experiments; scenes are OASIS's where its ratings are present."""
    scenes = ("OASIS's themes and ratings", oasis), ("themes of OASIS's sizes", themes)
    name, items = scenes[0 if OASIS.is_file() else 1]
    return [
        Kind("morphs in closed families", "faces", "words", morphs, k=60),
        Kind(name, "scenes", "labels", items, k=500),
        Kind("race words × gender words", "labels", "faces", labels, k=80),
        Kind("word families", "words", "scenes", word_families, k=60),
    ]


def experiment(kind: Kind, number: int) -> Experiment:
    """Draw world `number` of a kind, which is an experiment."""
    rng = generator(f"{kind.name}, {kind.planted}", number)
    items, vectors = kind.items(rng)
    groups = items["group"].unique() if "group" in items else [f"group {number}" for number in range(4)]
    directions = dict(zip(np.sort(groups), rng.standard_normal((len(groups), WIDTH)), strict=True))
    if kind.planted:
        vectors = vectors + kind.planted * np.stack([directions[group] for group in items["group"]])
    corpus = stimuli(kind.corpus, items, vectors, rng)
    target_items, target_vectors = _targets(kind.targets, directions, rng)
    targets = stimuli(kind.targets, target_items, target_vectors, rng)
    protocol = replace(PROTOCOL, attributes=kind.attributes, k=kind.k)
    return Experiment(targets[0], corpus[0], targets[1], corpus[1], protocol, number)


def morphs(rng: np.random.Generator) -> Items:
    """Draw parents in closed families of four groups, and the morphs of all pairs within a family."""
    rows, vectors = [], []
    for family in range(FAMILY_GROUPS * FAMILIES):
        names = [f"f{family:02d}p{parent}" for parent in range(PARENTS)]
        # Parents of a family look alike, whatever the group it is of.
        looks = rng.standard_normal(WIDTH) + rng.standard_normal((PARENTS, WIDTH))
        pairs = [*((parent, parent) for parent in range(PARENTS)), *combinations(range(PARENTS), 2)]
        for a, b in pairs:
            parents = {"parent_a": names[a], "parent_b": names[b]}
            rows.append({"name": f"{names[a]}-{b}", "group": f"group {family // FAMILIES}", **parents})
            vectors.append((looks[a] + looks[b]) / 2 + 0.2 * rng.standard_normal(WIDTH))
    return pd.DataFrame(rows), np.stack(vectors)


def themes(rng: np.random.Generator) -> Items:
    """Draw scenes in themes as large as OASIS's; themes share ratings and, independently, looks."""
    sizes = rng.permutation(np.repeat([*THEMES], [*THEMES.values()]))
    theme = np.repeat(np.arange(len(sizes)), sizes)
    names = [f"t{number:03d}" for number in theme]
    frame = pd.DataFrame({"name": _numbered("s", len(theme)), "cluster": names})
    return frame.assign(valence=ratings(theme, rng)), clustered(theme, rng)


def oasis(rng: np.random.Generator) -> Items:
    """Read OASIS's scenes with their ratings; scenes of a theme share looks, which are unrelated to ratings.

    A theme is a title without its number, as `Acorns` of `Acorns 1`.
    """
    rows = pd.read_csv(OASIS, encoding="utf-8")
    names = [title.rstrip().rstrip("0123456789").rstrip() for title in rows["Theme"]]
    theme = pd.factorize(np.array(names))[0]
    valence = (rows["Valence_mean"] - 1) / 6
    return pd.DataFrame({"name": rows["Theme"], "cluster": names, "valence": valence}), clustered(theme, rng)


def labels(rng: np.random.Generator) -> Items:
    """Draw phrases of 36 race words, in 25 lemmas, and 24 gender words; words have vectors of their own."""
    races = [(race, word) for race, words in RACE_WORDS.items() for word in words.split()]
    genders = [(gender, word) for gender, words in GENDER_WORDS.items() for word in words.split()]
    rows, vectors = [], []
    of_lemma: dict[str, np.ndarray] = {}
    for _, word in races:
        lemma = word.replace("men", "man").removesuffix("s")
        of_lemma[word] = of_lemma.setdefault(lemma, rng.standard_normal(WIDTH))
    of_gender = {word: rng.standard_normal(WIDTH) for _, word in genders}
    for race, race_word in races:
        of_word = of_lemma[race_word] + 0.3 * rng.standard_normal(WIDTH)
        for gender, gender_word in genders:
            names = {"race_word": race_word, "gender_word": gender_word, "group": f"{race} {gender}"}
            rows.append({"name": f"{race_word} {gender_word}", **names})
            vectors.append(of_word + of_gender[gender_word] + 0.3 * rng.standard_normal(WIDTH))
    return pd.DataFrame(rows), np.stack(vectors)


def word_families(rng: np.random.Generator) -> Items:
    """Draw 300 words of stems with 1 to 6 words each; stems share ratings and, independently, vectors."""
    stems: dict[str, None] = {}
    while len(stems) < 150:  # more than enough
        choices = ("bdfgklmnprtv", "aeiou", "bdfgklmnprtv", "aiou", "kmnp")
        stems["".join(rng.choice([*letters]) for letters in choices)] = None
    sizes = rng.choice(6, len(stems), p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05]) + 1
    family = np.repeat(np.arange(len(stems)), sizes)[:300]
    words = [stem + suffix for stem, size in zip(stems, sizes, strict=True) for suffix in SUFFIXES[:size]]
    frame = pd.DataFrame({"name": words[:300], "valence": ratings(family, rng)})
    return frame, clustered(family, rng)


def ratings(cluster: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw ratings in [0, 1] that items [N] of a cluster share in part."""
    return np.asarray(stats.norm.cdf(clustered(cluster, rng, 1)[:, 0]))


def clustered(cluster: np.ndarray, rng: np.random.Generator, width: int = WIDTH) -> np.ndarray:
    """Draw vectors [N, width] that items of a cluster share in part."""
    shared = rng.standard_normal((cluster.max() + 1, width))
    unshared = rng.standard_normal((len(cluster), width))
    return np.asarray(math.sqrt(SHARED) * shared[cluster] + math.sqrt(1 - SHARED) * unshared)


def _targets(role: str, directions: dict[str, np.ndarray], rng: np.random.Generator) -> Items:
    """Draw targets that carry their property in their vectors: groups, or ratings."""
    if role in ("words", "scenes"):
        valence = rng.uniform(size=60)
        vectors = rng.standard_normal((60, WIDTH)) + 4 * (valence[:, None] - 0.5) * rng.standard_normal(WIDTH)
        return pd.DataFrame({"name": _numbered("w", 60), "valence": valence}), vectors
    group = np.repeat([*directions], 20)
    vectors = rng.standard_normal((len(group), WIDTH)) + np.stack([2 * directions[name] for name in group])
    return pd.DataFrame({"name": _numbered("x", len(group)), "group": group}), vectors


def _numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:03d}" for number in range(count)]


def stimuli(
    role: str, items: pd.DataFrame, vectors: np.ndarray, rng: np.random.Generator
) -> tuple[Table, Tensor]:
    """Return table and vectors; texts have a row per template, whose vectors differ by noise."""
    frame = items.assign(id=items["name"])
    if role in TEXT_ROLES:
        templates = TEMPLATES[: 1 if role == "labels" else 2]
        rows = np.repeat(np.arange(len(items)), len(templates))
        vectors = vectors[rows] + 0.3 * rng.standard_normal((len(rows), vectors.shape[1]))
        frame = items.iloc[rows].assign(word=items["name"].to_numpy()[rows])
        frame["template"] = [*templates] * len(items)
        frame["sentence"] = frame["id"] = frame["word"] + " " + frame["template"]
    order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
    frame = frame.iloc[order].drop(columns="name").reset_index(drop=True)
    return Table(role, frame, len(items)), torch.from_numpy(vectors[order])
