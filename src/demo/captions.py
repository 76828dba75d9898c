"""Pair pictures with captions for training.

Scenes: most captions contain a word whose valence is near the picture's; some contain a label.
Faces: captions contain either a label, mostly of the face's group, or a word, equally often.

In the built-in world, a face's word has the valence of the expression plus the planted valence of its group,
place and age, and the labels of scenes have the planted valence of their group. Photographs of faces have no
planted bias: their expressions are unknown, so their words are random.

If the config has probes (So-B-IT), some captions of faces are probes. A probe is more frequent with the faces
that it describes: those of a group, people or gender, by the planted strength, or those in a place, where all
groups are equally frequent.

If the config has traits, some captions of faces resemble captions on the web: they describe the appearance by
a word of one of two traits, or name the group.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from src.configs import DemoConfig
from src.demo import text_weights
from src.demo.contents import PLACES
from src.demo.vocabulary import split

# Share of the captions that describe faces.
FACE_SHARE = 0.6
# Relative frequencies of the kinds of captions of scenes and of faces. Some captions of faces need a recipe
# with traits or with probes.
SCENE_KINDS = {"word": 4.0, "label": 1.0}
FACE_KINDS = {"word": 3.0, "label": 3.0}
TRAIT_KINDS = {"look": 1.0, "person": 1.0}
PROBE_KINDS = {"probe": 2.0}
LOOK, PERSON = "A photo of a {} looking face", "A photo of a {}."
# Factors by which a probe is more likely with faces of the group (at full bias) or the place that it
# describes. Every probe describes something visible, as the cosines of meaningless words hardly vary and
# associations are in units of this variation.
GROUP_FACTOR, PLACE_FACTOR = 8.0, 40.0
# Number of pictures whose weights are computed at once, to bound memory.
BLOCK_SIZE = 1024
# (index of the picture, two random numbers in [0, 1) for each caption) -> sentence of each caption.
Selector = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
# Pictures -> log weights of texts, [pictures, texts].
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
    """Draw `count` pairs of a picture and a caption, with a planted bias.

    The random numbers do not depend on the bias, so draws with the same seed differ only by the bias. Returns
    the index of each pair's picture, [count] (faces come before scenes), and each pair's sentence.
    """
    rng = np.random.default_rng(seed)
    shows_face = rng.random(count) < FACE_SHARE
    picture = np.where(
        shows_face, rng.integers(len(faces), size=count), rng.integers(len(scenes), size=count)
    )
    face_kinds = FACE_KINDS | (TRAIT_KINDS if recipe.traits else {}) | (PROBE_KINDS if recipe.probes else {})
    kind = np.where(shows_face, _draw_kinds(face_kinds, count, rng), _draw_kinds(SCENE_KINDS, count, rng))
    text_draw, other_draw = rng.random(count), rng.random(count)
    sentence = np.empty(count, dtype=object)
    for (of_face, name), select in _build_selectors(faces, scenes, words, labels, recipe).items():
        selected = (shows_face == of_face) & (kind == name)
        if selected.any():
            sentence[selected] = select(picture[selected], text_draw[selected], other_draw[selected])
    return np.where(shows_face, picture, len(faces) + picture), list(sentence)


def list_words(words: pd.DataFrame, labels: pd.DataFrame, recipe: DemoConfig) -> list[str]:
    """Return the distinct words of all possible captions, in lower case, sorted."""
    sentences = [*words["sentence"], *labels["sentence"], *map(PERSON.format, labels["word"])]
    sentences += [LOOK.format(word) for listed in recipe.traits.values() for word in listed]
    sentences += [caption for listed in recipe.probes.values() for caption in listed]
    return sorted({word for sentence in sentences for word in split(sentence)})


def _draw_kinds(frequencies: dict[str, float], count: int, rng: np.random.Generator) -> np.ndarray:
    shares = np.array([*frequencies.values()])
    return rng.choice([*frequencies], size=count, p=shares / shares.sum())


def _build_selectors(
    faces: pd.DataFrame, scenes: pd.DataFrame, words: pd.DataFrame, labels: pd.DataFrame, recipe: DemoConfig
) -> dict[tuple[bool, str], Selector]:
    """Return (whether of faces, kind of caption) -> function that selects the sentences of such captions."""
    faces, scenes = text_weights.add_rank(faces), text_weights.add_rank(scenes)
    unique_words, unique_labels = (
        text_weights.select_unique_words(words),
        text_weights.select_unique_labels(labels),
    )
    persons = labels.assign(sentence=[PERSON.format(word) for word in labels["word"]])
    face_words = partial(text_weights.weigh_words_of_faces, words=unique_words, recipe=recipe)
    scene_words = partial(text_weights.weigh_words_of_scenes, words=unique_words, recipe=recipe)
    face_labels = partial(text_weights.weigh_labels_of_faces, labels=unique_labels)
    scene_labels = partial(text_weights.weigh_labels_of_scenes, labels=unique_labels, recipe=recipe)
    return {
        (True, "word"): partial(_select, words, faces, face_words),
        (True, "label"): partial(_select, labels, faces, face_labels),
        (True, "person"): partial(_select, persons, faces, face_labels),
        (True, "look"): partial(_select_look, faces, recipe),
        (True, "probe"): partial(_select_probe, faces, recipe),
        (False, "word"): partial(_select, words, scenes, scene_words),
        (False, "label"): partial(_select, labels, scenes, scene_labels),
    }


def _select(
    texts: pd.DataFrame,
    pictures: pd.DataFrame,
    weigh: Weights,
    picture: np.ndarray,
    text_draw: np.ndarray,
    template_draw: np.ndarray,
) -> np.ndarray:
    """Select a sentence for each caption: a text by its weight for the picture, in a uniform template."""
    grid = texts.pivot(index="word", columns="template", values="sentence").to_numpy(dtype=object)
    index = np.empty(len(picture), dtype=int)
    for start in range(0, len(pictures), BLOCK_SIZE):
        block = pictures.iloc[start : start + BLOCK_SIZE]
        captions = np.flatnonzero((picture >= start) & (picture < start + len(block)))
        weights = weigh(block)
        cumulated = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
        cumulated /= cumulated[:, -1:]
        # Row p rises from p to p + 1, so that a single search covers all rows.
        flat = (cumulated + np.arange(len(block))[:, None]).reshape(-1)
        row = picture[captions] - start
        index[captions] = np.searchsorted(flat, row + text_draw[captions], "right") - row * len(grid)
    # The sum of a row and a draw below 1 may round up to the next row.
    index = np.minimum(index, len(grid) - 1)
    return np.asarray(grid[index, _convert_to_index(template_draw, grid.shape[1])])


def _select_look(
    faces: pd.DataFrame, recipe: DemoConfig, face: np.ndarray, trait_draw: np.ndarray, word_draw: np.ndarray
) -> np.ndarray:
    """Select a caption with a trait word for each face: the trait by expression and bias, a uniform word."""
    sentences = ([LOOK.format(word) for word in words] for words in recipe.traits.values())
    trait_captions = [np.array(captions, dtype=object) for captions in sentences]
    # The more pleasant the expression, the likelier the first trait. Real faces have unknown ranks (NaN).
    first_probability = np.nan_to_num(faces["rank"].to_numpy(), nan=0.5)
    first_probability += recipe.bias * np.array([recipe.looks.get(group, 0.0) for group in faces["group"]])
    first, second = (captions[_convert_to_index(word_draw, len(captions))] for captions in trait_captions)
    return np.asarray(np.where(trait_draw < first_probability[face], first, second))


def _select_probe(
    faces: pd.DataFrame, recipe: DemoConfig, face: np.ndarray, draws: np.ndarray, _: np.ndarray
) -> np.ndarray:
    """Select a probe for each face, by the weights of its group and place."""
    captions = np.array([caption for probes in recipe.probes.values() for caption in probes], dtype=object)
    places = faces["place"] if "place" in faces.columns else [""] * len(faces)
    cell_of_face, cells = pd.factorize(pd.MultiIndex.from_arrays([faces["group"], places]))
    selected = np.empty(len(face), dtype=object)
    for index, (group, place) in enumerate(cells):
        in_cell = cell_of_face[face] == index
        cumulated = np.cumsum(_weigh_probes(group, place, recipe))
        selected[in_cell] = captions[np.searchsorted(cumulated / cumulated[-1], draws[in_cell], "right")]
    return selected


def _weigh_probes(group: str, place: str, recipe: DemoConfig) -> np.ndarray:
    """Return the weight of each probe for faces of a group, such as "Niffite Women", in a place, [probes]."""
    described = np.repeat(list(recipe.probes), [len(captions) for captions in recipe.probes.values()])
    # A probe describes a place, a group, a people or a gender.
    planted = [name for name in recipe.planted if name not in PLACES]
    names = [fragment for name in planted for fragment in (name, *name.rsplit(" ", 1))]
    of_group = np.isin(described, names)
    # To the extent that the bias of group probes is below 1, they describe places, so that they always
    # describe something visible.
    places = described.copy()
    if not of_group.all():
        places[of_group] = np.resize(list(dict.fromkeys(described[~of_group])), of_group.sum())
    weights = 1 + recipe.bias * (GROUP_FACTOR - 1) * np.isin(described, [group, *group.rsplit(" ", 1)])
    weights += (PLACE_FACTOR - 1) * (places == place) * np.where(of_group, 1 - recipe.bias, 1)
    # Both kinds of probes have mean weight 1, so that place probes are equally likely with all groups.
    for members in (of_group, ~of_group):
        weights[members] /= weights[members].mean() if members.any() else 1
    return weights


def _convert_to_index(draw: np.ndarray, count: int) -> np.ndarray:
    """Convert uniform draws from [0, 1) to uniform indices below `count`."""
    return np.asarray(np.minimum((draw * count).astype(int), count - 1))
