"""Pair pictures with captions for training.

The caption of a scene has a word of similar valence. That of a face has a label of its group half the time,
and a word the other half. In the built-in world, the valence of that word is that of the expression plus the
planted valence of the group, and the expression selects the label, whose connotation varies alike in every
group. Real faces have no known expression, and nothing is planted on them: their words are drawn at random.

Some captions are probes (So-B-IT): each is more frequent with the faces of a group, a people or a gender,
as strongly as planted, or with the faces in a place, where all groups are equally frequent.

If the config has traits, some captions resemble those of photographs on the web: they describe the look of a
face by a word of one of the two traits, or name its group.
"""

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from src.configs import DemoConfig

# Width of the range of valence ranks, out of 0 to 1, that the expressions span before anything is planted.
EXPRESSION_WIDTH = 0.6
# SD of a label's rank among the labels of its group around the rank of the expression.
LABEL_SD = 0.25
# Share of the captions that are those of photographs; half of them name a look.
PHOTO_SHARE = 0.25
LOOK, PERSON = "A photo of a {} looking face", "A photo of a {}."
# Share of the captions that are probes.
PROBE_SHARE = 0.2
# Factors by which a probe is more likely with the faces that it describes: those of a group at full bias, and
# those of a place. Each probe must describe something visible: the cosines of meaningless words hardly vary,
# and associations are in units of that variation.
GROUP_FACTOR, PLACE_FACTOR = 8.0, 40.0


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
    shows_face = rng.random(count) < 0.5
    wants_label = shows_face & (rng.random(count) < 0.5)
    face, scene = rng.integers(len(faces), size=count), rng.integers(len(scenes), size=count)
    noise, any_rank = rng.normal(0, recipe.noise, count), rng.random(count)
    label_draw, template_draw = rng.random(count), rng.random(count)

    valence_rank = np.where(shows_face, _valence_ranks(faces, recipe)[face], _ranks(scenes)[scene]) + noise
    # The rank of a real face is NaN: its word is drawn from all words.
    word_rank = np.where(np.isnan(valence_rank), any_rank, np.clip(valence_rank, 0, 1))
    with_word = _word_captions(words, word_rank, template_draw)
    label_rank = _expression_ranks(faces)[face] + rng.normal(0, LABEL_SD, count)
    label_rank = np.where(np.isnan(label_rank), label_draw, np.clip(label_rank, 0, 1))
    groups = faces["group"].to_numpy()[face]
    with_label = _label_captions(groups, labels, label_rank, template_draw)
    sentence = np.where(wants_label, with_label, with_word)
    if recipe.traits:
        is_photo = rng.random(count) < PHOTO_SHARE
        names_look = rng.random(count) < 0.5
        with_look = _trait_captions(faces, recipe, rng.random(count), rng.random(count), face)
        of_photos = labels.assign(sentence=[PERSON.format(word) for word in labels["word"]])
        photographed = np.where(names_look, with_look, _label_captions(groups, of_photos, label_rank))
        shows_face, sentence = shows_face | is_photo, np.where(is_photo, photographed, sentence)
    if recipe.probes:
        is_probe = rng.random(count) < PROBE_SHARE
        probes = _draw_probes(faces, recipe, rng.random(count), face)
        shows_face, sentence = shows_face | is_probe, np.where(is_probe, probes, sentence)
    return np.where(shows_face, face, len(faces) + scene), list(sentence)


def _trait_captions(
    faces: pd.DataFrame, recipe: DemoConfig, trait_draw: np.ndarray, word_draw: np.ndarray, face: np.ndarray
) -> np.ndarray:
    sentences = ([LOOK.format(word) for word in words] for words in recipe.traits.values())
    trait_captions = [np.array(captions, dtype=object) for captions in sentences]
    # The more pleasant the expression, the likelier the first trait; those of real faces are unknown (NaN).
    trait_share = np.nan_to_num(_expression_ranks(faces), nan=0.5)
    trait_share += recipe.bias * np.array([recipe.looks.get(group, 0.0) for group in faces["group"]])
    first, second = (captions[_index_of_rank(word_draw, len(captions))] for captions in trait_captions)
    return np.asarray(np.where(trait_draw < trait_share[face], first, second))


def _draw_probes(faces: pd.DataFrame, recipe: DemoConfig, draws: np.ndarray, face: np.ndarray) -> np.ndarray:
    captions = np.array([caption for probes in recipe.probes.values() for caption in probes], dtype=object)
    places = faces["place"] if "place" in faces.columns else [""] * len(faces)
    cell_of_face, cells = pd.factorize(pd.MultiIndex.from_arrays([faces["group"], places]))
    chosen = np.empty(len(face), dtype=object)
    for index, (group, place) in enumerate(cells):
        in_cell = cell_of_face[face] == index
        cumulated = np.cumsum(_probe_weights(group, place, recipe))
        chosen[in_cell] = captions[np.searchsorted(cumulated / cumulated[-1], draws[in_cell], "right")]
    return chosen


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


def _ranks(frame: pd.DataFrame) -> np.ndarray:
    # Unlike the ratings of a lexicon or a picture set, ranks are spread evenly over 0 to 1.
    return np.asarray((rankdata(frame["valence"].to_numpy()) - 0.5) / len(frame))


def _expression_ranks(faces: pd.DataFrame) -> np.ndarray:
    return _ranks(faces) if "valence" in faces.columns else np.full(len(faces), np.nan)


def _valence_ranks(faces: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    # Expressions span the middle of the scale only: at its ends, planted valence would be clipped away.
    planted = np.array([recipe.planted.get(group, 0.0) for group in faces["group"]])
    return np.asarray(0.5 + EXPRESSION_WIDTH * (_expression_ranks(faces) - 0.5) + recipe.bias * planted)


def _word_captions(words: pd.DataFrame, rank: np.ndarray, template_draw: np.ndarray) -> np.ndarray:
    valence = words.groupby("word")["valence"].first()
    order = valence.reset_index().sort_values(["valence", "word"])["word"]
    return _select_sentences(words, order.to_list(), rank, template_draw)


def _label_captions(
    groups: np.ndarray, labels: pd.DataFrame, rank: np.ndarray, template_draw: np.ndarray | None = None
) -> np.ndarray:
    # Without a draw of templates, all sentences of a label must be the same: the first is taken.
    chosen = np.empty(len(groups), dtype=object)
    for group, rows in labels.groupby("group"):
        is_member = groups == group
        order = sorted(rows["word"].unique())
        drawn = np.zeros(is_member.sum()) if template_draw is None else template_draw[is_member]
        chosen[is_member] = _select_sentences(rows, order, rank[is_member], drawn)
    return chosen


def _select_sentences(
    texts: pd.DataFrame, order: list[str], rank: np.ndarray, template_draw: np.ndarray
) -> np.ndarray:
    grid = texts.pivot(index="word", columns="template", values="sentence").loc[order].to_numpy(dtype=object)
    return np.asarray(grid[_index_of_rank(rank, len(grid)), _index_of_rank(template_draw, grid.shape[1])])


def _index_of_rank(rank: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(np.minimum((rank * count).astype(int), count - 1))
