"""Compute how often each word and label describes each picture.

A text is the more frequent, the nearer its rank of valence is to that of the picture, and the more contents
both share (see src/demo/contents.py). Of photographs the contents are unknown, and of their faces the valence
too: then all words are equally frequent.

All weights are logarithms, [pictures, texts]; pictures and texts have a column `rank`.
"""

import hashlib

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from src.configs import DemoConfig
from src.demo.contents import CONTENTS, add_meanings, count_shared_contents

# Width of the range of ranks, out of 0 to 1, that expressions and labels span before anything is planted.
EXPRESSION_WIDTH = 0.6
# SD of a label's rank around the rank of the expression.
LABEL_SD = 0.25
# Factor by which a text is more frequent for each content that it shares with the picture.
CONTENT_FACTOR = 8.0
# Factors by which a label is more frequent if it names the race or the gender of the face.
AXIS_FACTORS = {"race": 6.0, "gender": 4.0}
WORDS_OF_LABELS = ("race_word", "gender_word")


def add_rank(pictures: pd.DataFrame) -> pd.DataFrame:
    """Add the `rank` of each valence, in (0, 1); NaN for photographs of faces.

    Unlike the ratings of a lexicon or a picture set, ranks are spread evenly over 0 to 1.
    """
    if "valence" not in pictures.columns:
        return pictures.assign(rank=np.nan)
    return pictures.assign(rank=(rankdata(pictures["valence"].to_numpy()) - 0.5) / len(pictures))


def unique_words(words: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct words, their `rank` and what they mean, in alphabetical order."""
    unique = add_rank(words.groupby("word", as_index=False)[["valence"]].first())
    return add_meanings(unique, unique["rank"].rank(method="first"))


def unique_labels(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct labels, the `rank` of their connotation and what they mean, in alphabetical order.

    The rank is the mean of those of a race word among the words of its race, and of a gender word likewise;
    both words take turns in meaning the contents.
    """
    unique = labels.groupby("word", as_index=False)[["group", *AXIS_FACTORS, *WORDS_OF_LABELS]].first()
    unique["rank"] = 0.0
    for number, (axis, column) in enumerate(zip(AXIS_FACTORS, WORDS_OF_LABELS, strict=True)):
        # In the order of their hashes: the alphabet has no valence.
        order = unique[column].map(lambda text: hashlib.sha256(text.encode()).hexdigest())
        place = order.groupby(unique[axis]).rank(method="dense")
        unique["rank"] += (place - 0.5) / place.groupby(unique[axis]).transform("max") / len(AXIS_FACTORS)
        unique = add_meanings(unique, unique[axis] + order, [*CONTENTS][number :: len(AXIS_FACTORS)])
    return unique


def words_of_faces(faces: pd.DataFrame, words: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    """Compute the weights of words by the rank of an expression plus what is planted on the group."""
    return words_of_scenes(faces.assign(rank=_add_planted(faces, recipe)), words, recipe)


def words_of_scenes(scenes: pd.DataFrame, words: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    """Compute the weights of words by the rank of a scene."""
    return _weights(scenes, words, words["rank"], recipe.noise)


def labels_of_faces(faces: pd.DataFrame, labels: pd.DataFrame) -> np.ndarray:
    """Compute the weights of labels by race, gender and expression of a face; nothing is planted on them."""
    axes = labels.groupby("group")[[*AXIS_FACTORS]].first().loc[faces["group"]]
    weights = _weights(faces, labels, labels["rank"], LABEL_SD)
    for axis, factor in AXIS_FACTORS.items():
        weights += np.log(factor) * (axes[axis].to_numpy()[:, None] == labels[axis].to_numpy())
    return weights


def labels_of_scenes(scenes: pd.DataFrame, labels: pd.DataFrame, recipe: DemoConfig) -> np.ndarray:
    """Compute the weights of labels by the rank of a scene and what is planted on the label's group."""
    return _weights(scenes, labels, _add_planted(labels, recipe), recipe.noise)


def _add_planted(frame: pd.DataFrame, recipe: DemoConfig) -> pd.Series:
    # Ranks are compressed first: beyond the ends of the scale, there are no words for what is planted.
    planted = np.array([recipe.planted.get(group, 0.0) for group in frame["group"]])
    return 0.5 + EXPRESSION_WIDTH * (frame["rank"] - 0.5) + recipe.bias * planted


def _weights(pictures: pd.DataFrame, texts: pd.DataFrame, ranks: pd.Series, sd: float) -> np.ndarray:
    """Compute the weights of texts by their ranks, and by the contents that they share with pictures."""
    distances = pictures["rank"].to_numpy()[:, None] - ranks.to_numpy()
    likelihood = -((np.nan_to_num(distances) / sd) ** 2) / 2
    return np.asarray(likelihood + np.log(CONTENT_FACTOR) * count_shared_contents(pictures, texts))
