"""Weigh how often each word and label describes each picture.

A text is more frequent the nearer its valence rank is to the picture's, and the more contents they share (see
src/demo/contents.py). The contents of photographs are unknown. The valence of photographed faces is unknown,
too, so all words are equally frequent with them.

All weights are logarithms, [pictures, texts]; pictures and texts have a column `rank`.
"""

import hashlib

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from src.configs import DemoConfig
from src.demo.contents import CONTENTS, add_meanings, count_shared_contents

# Width of the range that the ranks of expressions and labels span, within 0 to 1, before the planted shifts.
EXPRESSION_WIDTH = 0.6
# SD of a label's rank around the rank of the face's expression.
LABEL_SD = 0.25
# Factor by which a text is more frequent per content that it shares with the picture.
CONTENT_FACTOR = 8.0
# Factors by which a label is more frequent if it names the race or the gender of the face.
AXIS_FACTORS = {"race": 6.0, "gender": 4.0}
WORD_COLUMNS = ("race_word", "gender_word")


def add_rank(pictures: pd.DataFrame) -> pd.DataFrame:
    """Add a column `rank`, the rank of the valence scaled to (0, 1); NaN for photographs of faces.

    Ranks are uniform on (0, 1), whereas the ratings of a lexicon or picture set are not.
    """
    if "valence" not in pictures.columns:
        return pictures.assign(rank=np.nan)
    return pictures.assign(rank=(rankdata(pictures["valence"].to_numpy()) - 0.5) / len(pictures))


def select_unique_words(words: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct words in alphabetical order, with their `rank` and the contents that they mean."""
    unique = add_rank(words.groupby("word", as_index=False)[["valence"]].first())
    return add_meanings(unique, unique["rank"].rank(method="first"))


def select_unique_labels(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct labels in alphabetical order, with their `rank` and the contents that they mean.

    The rank is a connotation, independent of the group: the mean of the rank of the race word among the words
    of its race and the rank of the gender word among those of its gender. The race word determines every
    other content, the gender word the remaining contents.
    """
    unique = labels.groupby("word", as_index=False)[["group", *AXIS_FACTORS, *WORD_COLUMNS]].first()
    unique["rank"] = 0.0
    for number, (axis, column) in enumerate(zip(AXIS_FACTORS, WORD_COLUMNS, strict=True)):
        # Words are ranked by their hashes, an arbitrary but fixed order.
        order = unique[column].map(lambda text: hashlib.sha256(text.encode()).hexdigest())
        position = order.groupby(unique[axis]).rank(method="dense")
        n_words = position.groupby(unique[axis]).transform("max")
        unique["rank"] += (position - 0.5) / n_words / len(AXIS_FACTORS)
        unique = add_meanings(unique, unique[axis] + order, [*CONTENTS][number :: len(AXIS_FACTORS)])
    return unique


def weigh_words_of_faces(faces: pd.DataFrame, words: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    """Weigh words by the rank of a face's expression plus the planted shifts of its group, place and age."""
    ranks = _shift_ranks(faces, recipe)
    for column in [name for name in ("place", "age") if name in faces]:
        ranks += recipe.bias * faces[column].map(lambda value: recipe.planted.get(value, 0.0))
    return weigh_words_of_scenes(faces.assign(rank=ranks), words, recipe)


def weigh_words_of_scenes(scenes: pd.DataFrame, words: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    """Weigh words by the rank of a scene."""
    return _weigh_texts(scenes, words, words["rank"], recipe.noise)


def weigh_labels_of_faces(faces: pd.DataFrame, labels: pd.DataFrame) -> np.ndarray:
    """Weigh labels by the race, gender and expression of a face, without a planted shift."""
    axes = labels.groupby("group")[[*AXIS_FACTORS]].first().loc[faces["group"]]
    weights = _weigh_texts(faces, labels, labels["rank"], LABEL_SD)
    for axis, factor in AXIS_FACTORS.items():
        weights += np.log(factor) * (axes[axis].to_numpy()[:, None] == labels[axis].to_numpy())
    return weights


def weigh_labels_of_scenes(scenes: pd.DataFrame, labels: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    """Weigh labels by the rank of a scene and the planted shift of the label's group."""
    return _weigh_texts(scenes, labels, _shift_ranks(labels, recipe), recipe.noise)


def _shift_ranks(frame: pd.DataFrame, recipe: DemoConfig) -> pd.Series:
    """Return the ranks of faces or labels, shifted by the planted bias of their group."""
    # Ranks are compressed first, as no words have ranks beyond the ends of the scale.
    planted = np.array([recipe.planted.get(group, 0.0) for group in frame["group"]])
    return 0.5 + EXPRESSION_WIDTH * (frame["rank"] - 0.5) + recipe.bias * planted


def _weigh_texts(pictures: pd.DataFrame, texts: pd.DataFrame, ranks: pd.Series, sd: float) -> np.ndarray:
    """Weigh texts by the normal density of rank differences, and by the contents shared with pictures."""
    differences = pictures["rank"].to_numpy()[:, None] - ranks.to_numpy()
    log_density = -((np.nan_to_num(differences) / sd) ** 2) / 2
    return np.asarray(log_density + np.log(CONTENT_FACTOR) * count_shared_contents(pictures, texts))
