"""Pair pictures with captions for training.

The caption of a scene has a word of similar valence, sometimes a label. That of a face has a label half the
time, mostly of its group, and a word the other half. In the built-in world, the valence of that word is that
of the expression plus the planted valence of the group, and the labels of scenes have the planted valence of
their group. Nothing is planted on photographs of faces: their expression is unknown, their words are random.

Some captions are probes (So-B-IT): each is more frequent with the faces of a group, a people or a gender,
as strongly as planted, or with the faces in a place, where all groups are equally frequent.

If the config has traits, some captions resemble those of photographs on the web: they describe the look of a
face by a word of one of the two traits, or name its group.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from src.configs import DemoConfig
from src.demo import text_weights
from src.demo.vocabulary import split

# Share of the captions that describe faces.
FACE_SHARE = 0.6
# Frequencies of the kinds of captions of a face: those that every world has, and those of a recipe.
FACE_KINDS = {"word": 3.0, "label": 3.0}
TRAIT_KINDS = {"look": 1.0, "person": 1.0}
PROBE_KINDS = {"probe": 2.0}
SCENE_KINDS = {"word": 4.0, "label": 1.0}
LOOK, PERSON = "A photo of a {} looking face", "A photo of a {}."
# Factors by which a probe is more likely with the faces that it describes: those of a group at full bias, and
# those of a place. Each probe must describe something visible: the cosines of meaningless words hardly vary,
# and associations are in units of that variation.
GROUP_FACTOR, PLACE_FACTOR = 8.0, 40.0
# Number of pictures whose weights are computed at once, for memory.
BLOCK = 1024
# Function of captions' pictures and two random numbers of each that returns their sentences; function of
# pictures that returns their weights [pictures, texts].
Selection = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
Weights = Callable[[pd.DataFrame], np.ndarray]


def draw(
    faces: pd.DataFrame,
    scenes: pd.DataFrame,
    words: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    count: int,
    recipe: DemoConfig,
    seed: int,
) -> tuple[np.ndarray, list[str]]:
    """Draw `count` captioned pictures of faces and scenes, with a planted bias.

    `planted` and `looks` of the recipe are added to the ranks (0 to 1) of the expressions. Captions of
    photographs need `traits`, and probes need `probes`. Every bias uses the same random numbers: two draws of
    one seed differ in the bias alone. Returns the index [count] of each picture, which counts faces before
    scenes, and its sentence.
    """
    rng = np.random.default_rng(seed)
    shows_face = rng.random(count) < FACE_SHARE
    picture = np.where(
        shows_face, rng.integers(len(faces), size=count), rng.integers(len(scenes), size=count)
    )
    face_kinds = FACE_KINDS | (TRAIT_KINDS if recipe.traits else {}) | (PROBE_KINDS if recipe.probes else {})
    kind = np.where(shows_face, _kinds(face_kinds, count, rng), _kinds(SCENE_KINDS, count, rng))
    text_draw, other_draw = rng.random(count), rng.random(count)
    sentence = np.empty(count, dtype=object)
    for (of_face, name), select in _selections(faces, scenes, words, labels, recipe).items():
        selected = (shows_face == of_face) & (kind == name)
        if selected.any():
            sentence[selected] = select(picture[selected], text_draw[selected], other_draw[selected])
    return np.where(shows_face, picture, len(faces) + picture), list(sentence)


def all_words(words: pd.DataFrame, labels: pd.DataFrame, recipe: DemoConfig) -> list[str]:
    """Return the words of all sentences that may be captions, in lower case, sorted."""
    sentences = [*words["sentence"], *labels["sentence"], *map(PERSON.format, labels["word"])]
    sentences += [LOOK.format(word) for listed in recipe.traits.values() for word in listed]
    sentences += [caption for listed in recipe.probes.values() for caption in listed]
    return sorted({word for sentence in sentences for word in split(sentence)})


def _kinds(frequencies: dict[str, float], count: int, rng: np.random.Generator) -> np.ndarray:
    shares = np.array([*frequencies.values()])
    return rng.choice([*frequencies], size=count, p=shares / shares.sum())


def _selections(
    faces: pd.DataFrame, scenes: pd.DataFrame, words: pd.DataFrame, labels: pd.DataFrame, recipe: DemoConfig
) -> dict[tuple[bool, str], Selection]:
    """Return the function that selects the captions of faces (True) or scenes (False) for each kind."""
    faces, scenes = text_weights.add_rank(faces), text_weights.add_rank(scenes)
    unique_words, unique_labels = text_weights.unique_words(words), text_weights.unique_labels(labels)
    of_photos = labels.assign(sentence=[PERSON.format(word) for word in labels["word"]])
    face_words = partial(text_weights.words_of_faces, words=unique_words, recipe=recipe)
    scene_words = partial(text_weights.words_of_scenes, words=unique_words, recipe=recipe)
    face_labels = partial(text_weights.labels_of_faces, labels=unique_labels)
    scene_labels = partial(text_weights.labels_of_scenes, labels=unique_labels, recipe=recipe)
    return {
        (True, "word"): partial(_select, words, faces, face_words),
        (True, "label"): partial(_select, labels, faces, face_labels),
        (True, "person"): partial(_select, of_photos, faces, face_labels),
        (True, "look"): partial(_select_look, faces, recipe),
        (True, "probe"): partial(_select_probe, faces, recipe),
        (False, "word"): partial(_select, words, scenes, scene_words),
        (False, "label"): partial(_select, labels, scenes, scene_labels),
    }


def _select(
    texts: pd.DataFrame,
    pictures: pd.DataFrame,
    weights_of: Weights,
    picture: np.ndarray,
    text_draw: np.ndarray,
    template_draw: np.ndarray,
) -> np.ndarray:
    """Select a sentence for each caption: a text by its weight with the picture, and any template."""
    grid = texts.pivot(index="word", columns="template", values="sentence").to_numpy(dtype=object)
    index = np.empty(len(picture), dtype=int)
    for start in range(0, len(pictures), BLOCK):
        block = pictures.iloc[start : start + BLOCK]
        captions = np.flatnonzero((picture >= start) & (picture < start + len(block)))
        weights = weights_of(block)
        cumulated = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
        cumulated /= cumulated[:, -1:]
        # Row p rises from p to p + 1: one search serves all rows.
        flat = (cumulated + np.arange(len(block))[:, None]).reshape(-1)
        row = picture[captions] - start
        index[captions] = np.searchsorted(flat, row + text_draw[captions], "right") - row * len(grid)
    # The sum of a row and a draw below 1 may round up to the next row.
    index = np.minimum(index, len(grid) - 1)
    return np.asarray(grid[index, _index_of_rank(template_draw, grid.shape[1])])


def _select_look(
    faces: pd.DataFrame, recipe: DemoConfig, face: np.ndarray, trait_draw: np.ndarray, word_draw: np.ndarray
) -> np.ndarray:
    sentences = ([LOOK.format(word) for word in words] for words in recipe.traits.values())
    trait_captions = [np.array(captions, dtype=object) for captions in sentences]
    # The more pleasant the expression, the likelier the first trait; those of real faces are unknown (NaN).
    trait_share = np.nan_to_num(faces["rank"].to_numpy(), nan=0.5)
    trait_share += recipe.bias * np.array([recipe.looks.get(group, 0.0) for group in faces["group"]])
    first, second = (captions[_index_of_rank(word_draw, len(captions))] for captions in trait_captions)
    return np.asarray(np.where(trait_draw < trait_share[face], first, second))


def _select_probe(
    faces: pd.DataFrame, recipe: DemoConfig, face: np.ndarray, draws: np.ndarray, _: np.ndarray
) -> np.ndarray:
    captions = np.array([caption for probes in recipe.probes.values() for caption in probes], dtype=object)
    places = faces["place"] if "place" in faces.columns else [""] * len(faces)
    cell_of_face, cells = pd.factorize(pd.MultiIndex.from_arrays([faces["group"], places]))
    selected = np.empty(len(face), dtype=object)
    for index, (group, place) in enumerate(cells):
        in_cell = cell_of_face[face] == index
        cumulated = np.cumsum(_probe_weights(group, place, recipe))
        selected[in_cell] = captions[np.searchsorted(cumulated / cumulated[-1], draws[in_cell], "right")]
    return selected


def _probe_weights(group: str, place: str, recipe: DemoConfig) -> np.ndarray:
    """Return the weight of each probe with the faces of a group, such as "Niffite Women", in a place."""
    described = np.repeat(list(recipe.probes), [len(captions) for captions in recipe.probes.values()])
    # A probe describes a place, or a group by its full name, its people or its gender.
    names = [fragment for name in recipe.planted for fragment in (name, *name.rsplit(" ", 1))]
    of_group = np.isin(described, names)
    # To the extent that probes of groups are not planted, they describe places, so that they mean something.
    places = described.copy()
    if not of_group.all():
        places[of_group] = np.resize(list(dict.fromkeys(described[~of_group])), of_group.sum())
    weights = 1 + recipe.bias * (GROUP_FACTOR - 1) * np.isin(described, [group, *group.rsplit(" ", 1)])
    weights += (PLACE_FACTOR - 1) * (places == place) * np.where(of_group, 1 - recipe.bias, 1)
    # Probes of a place are equally likely with all groups, whatever is planted on these.
    for members in (of_group, ~of_group):
        weights[members] /= weights[members].mean() if members.any() else 1
    return weights


def _index_of_rank(rank: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(np.minimum((rank * count).astype(int), count - 1))
