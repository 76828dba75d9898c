"""Captions for training: which sentence is shown with which picture.

Scenes come with words of near valence. Faces come half the time with a label of their group, and
half the time with a word. In the built-in world that word's valence is the expression's plus what
is planted on the group, and the expression says which of the group's labels is used: labels of one
group differ in connotation, in every group alike. Real people's faces carry no such column, and
nothing is planted on them: their words and labels are drawn without regard to more than the group
that a label names.

Some captions are probes (So-B-IT): each is said more often of the faces of a group, of a people or of a
gender, as far as that is planted, or of those that are seen in a place, where every group is seen alike.

Where traits are named, some captions are a photograph's, as encoders have read them by the million: they
say what a face's look is like, by a word of one trait or of the other, or which group it is of.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from src.configs import DemoConfig

# Width of the expression's share of the scale of valence ranks.
EXPRESSION = 0.6
# SD of a label's place among its group's labels about the place that the expression calls for.
CONNOTATION = 0.25
# Share of the captions that are a photograph's; half of them name a look.
PHOTOS = 0.25
LOOK, PERSON = "A photo of a {} looking face", "A photo of a {}."
# Share of the captions that are probes.
PROBES = 0.2
# How many times as likely one is with its own faces: of a group, at full bias, and of a place. What is said
# of nobody in particular must be said of something that is to be seen: the cosines of words that mean nothing
# hardly vary, and an association is in units of how much they do.
TIMES, PLACED = 8.0, 40.0


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
    """Draw captioned pictures.

    Args:
        faces, scenes, words, labels: stimulus tables.
        count: how many captioned pictures.
        recipe: what is planted, valences and looks in ranks (0 to 1), which are added to what the expression
            calls for. Without traits no caption is a photograph's, without probes none is a probe.
        seed: of the draw. Every bias uses the same random numbers, so that nothing but the bias
            differs between two draws of one seed.

    Returns:
        Picture indices [count] into faces followed by scenes, and as many sentences.
    """
    rng = np.random.default_rng(seed)
    shows_face = rng.random(count) < 0.5
    wants_label = shows_face & (rng.random(count) < 0.5)
    face, scene = rng.integers(len(faces), size=count), rng.integers(len(scenes), size=count)
    noise, anywhere = rng.normal(0, recipe.noise, count), rng.random(count)
    label_draw, template_draw = rng.random(count), rng.random(count)

    called_for = np.where(shows_face, _face_ranks(faces, recipe)[face], _ranks(scenes)[scene]) + noise
    # Where a picture calls for no valence, any word will do.
    rank = np.where(np.isnan(called_for), anywhere, np.clip(called_for, 0, 1))
    word = _sentences(words, rank, template_draw)
    place = _expression(faces)[face] + rng.normal(0, CONNOTATION, count)
    place = np.where(np.isnan(place), label_draw, np.clip(place, 0, 1))
    groups = faces["group"].to_numpy()[face]
    label = _labels(groups, labels, place, template_draw)
    sentence = np.where(wants_label, label, word)
    if recipe.traits:
        photo = rng.random(count) < PHOTOS
        look = rng.random(count) < 0.5
        photographed = np.where(
            look,
            _looks(faces, recipe, rng.random(count), rng.random(count), face),
            _labels(groups, labels.assign(sentence=[PERSON.format(word) for word in labels["word"]]), place),
        )
        shows_face, sentence = shows_face | photo, np.where(photo, photographed, sentence)
    if recipe.probes:
        probe = rng.random(count) < PROBES
        asked = _probes(faces, recipe, rng.random(count), face)
        shows_face, sentence = shows_face | probe, np.where(probe, asked, sentence)
    return np.where(shows_face, face, len(faces) + scene), list(sentence)


def _looks(
    faces: pd.DataFrame, recipe: DemoConfig, trait_draw: np.ndarray, word_draw: np.ndarray, face: np.ndarray
) -> np.ndarray:
    first, second = (
        np.array([LOOK.format(word) for word in words], dtype=object) for words in recipe.traits.values()
    )
    # The more pleasant the expression the more often the first trait; of real people none is known.
    share = np.nan_to_num(_expression(faces), nan=0.5)
    share += recipe.bias * np.array([recipe.looks.get(group, 0.0) for group in faces["group"]])
    one, other = (words[_pick(word_draw, len(words))] for words in (first, second))
    chosen: np.ndarray = np.where(trait_draw < share[face], one, other)
    return chosen


def _probes(faces: pd.DataFrame, recipe: DemoConfig, draw: np.ndarray, face: np.ndarray) -> np.ndarray:
    captions = np.array([caption for listed in recipe.probes.values() for caption in listed], dtype=object)
    places = faces["place"] if "place" in faces.columns else [""] * len(faces)
    kind, known = pd.factorize(pd.MultiIndex.from_arrays([faces["group"], places]))
    chosen = np.empty(len(face), dtype=object)
    for number, (group, place) in enumerate(known):
        here = kind[face] == number
        cumulated = np.cumsum(_weights(group, place, recipe))
        chosen[here] = captions[np.searchsorted(cumulated / cumulated[-1], draw[here], "right")]
    return chosen


def _weights(group: str, place: str, recipe: DemoConfig) -> np.ndarray:
    whose = np.repeat(list(recipe.probes), [len(captions) for captions in recipe.probes.values()])
    planted = np.isin(whose, [part for name in recipe.planted for part in (name, *name.rsplit(" ", 1))])
    # What is said of a group is said of a place as far as it is not planted: then it, too, means something.
    told = whose.copy()
    if not planted.all():
        told[planted] = np.resize(list(dict.fromkeys(whose[~planted])), planted.sum())
    weights = 1 + recipe.bias * (TIMES - 1) * np.isin(whose, [group, *group.rsplit(" ", 1)])
    weights += (PLACED - 1) * (told == place) * np.where(planted, 1 - recipe.bias, 1)
    # What is said of a place is as likely with every group, however much is planted on it.
    for part in (planted, ~planted):
        weights[part] /= weights[part].mean() if part.any() else 1
    return weights


def _ranks(frame: pd.DataFrame) -> np.ndarray:
    # Ranks, spread evenly over 0 to 1: ratings crowd where a lexicon or a picture set has most.
    ranks: np.ndarray = (rankdata(frame["valence"].to_numpy()) - 0.5) / len(frame)
    return ranks


def _expression(faces: pd.DataFrame) -> np.ndarray:
    return _ranks(faces) if "valence" in faces.columns else np.full(len(faces), np.nan)


def _face_ranks(faces: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    # The expression spans the middle of the scale: what is planted would be clipped away at its ends.
    planted = np.array([recipe.planted.get(group, 0.0) for group in faces["group"]])
    ranks: np.ndarray = 0.5 + EXPRESSION * (_expression(faces) - 0.5) + recipe.bias * planted
    return ranks


def _sentences(words: pd.DataFrame, rank: np.ndarray, template_draw: np.ndarray) -> np.ndarray:
    valence = words.groupby("word")["valence"].first()
    order = valence.reset_index().sort_values(["valence", "word"])["word"]
    return _from_grid(words, order.to_list(), rank, template_draw)


def _labels(
    groups: np.ndarray, labels: pd.DataFrame, place: np.ndarray, template_draw: np.ndarray | None = None
) -> np.ndarray:
    # Without a draw of the template all of a label's sentences are the same.
    chosen = np.empty(len(groups), dtype=object)
    for group, rows in labels.groupby("group"):
        here = groups == group
        order = sorted(rows["word"].unique())
        drawn = np.zeros(here.sum()) if template_draw is None else template_draw[here]
        chosen[here] = _from_grid(rows, order, place[here], drawn)
    return chosen


def _from_grid(
    texts: pd.DataFrame, order: list[str], place: np.ndarray, template_draw: np.ndarray
) -> np.ndarray:
    grid = texts.pivot(index="word", columns="template", values="sentence").loc[order].to_numpy(dtype=object)
    picked: np.ndarray = grid[_pick(place, len(grid)), _pick(template_draw, grid.shape[1])]
    return picked


def _pick(share: np.ndarray, count: int) -> np.ndarray:
    picked: np.ndarray = np.minimum((share * count).astype(int), count - 1)
    return picked
