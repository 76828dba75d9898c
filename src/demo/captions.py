"""Captions for training: which sentence is shown with which picture.

Scenes come with words of near valence. Faces come half the time with a label of their group, and
half the time with a word. In the built-in world that word's valence is the expression's plus what
is planted on the group; real people's faces carry no such columns, and nothing is planted on
them: their words are drawn without regard to group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.stats import rankdata


@dataclass(frozen=True)
class Recipe:
    """What is planted.

    Attributes:
        noise: standard deviation of a word's valence rank (0 to 1) about what a picture calls for.
        bias: 0 (none) to 1: weight of the group's planted valence.
        planted: group -> planted valence, in ranks; empty where nothing is planted.
    """

    noise: float = 0.1
    bias: float = 0.0
    planted: Mapping[str, float] = field(default_factory=dict)


def draw(
    faces: pd.DataFrame,
    scenes: pd.DataFrame,
    words: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    count: int,
    recipe: Recipe,
    seed: int,
) -> tuple[np.ndarray, list[str]]:
    """Draw captioned pictures.

    Args:
        faces, scenes, words, labels: stimulus tables.
        count: how many captioned pictures.
        recipe: what is planted.
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
    label = _labels(faces["group"].to_numpy()[face], labels, label_draw)
    pictures = np.where(shows_face, face, len(faces) + scene)
    return pictures, list(np.where(wants_label, label, word))


def _ranks(frame: pd.DataFrame) -> np.ndarray:
    # Ranks, spread evenly over 0 to 1: ratings crowd where a lexicon or a picture set has most.
    ranks: np.ndarray = (rankdata(frame["valence"].to_numpy()) - 0.5) / len(frame)
    return ranks


def _face_ranks(faces: pd.DataFrame, recipe: Recipe) -> np.ndarray:
    if "valence" not in faces.columns:
        return np.full(len(faces), np.nan)
    # The expression spans the middle of the scale, so that what is planted is not clipped away.
    planted = np.array([recipe.planted.get(group, 0.0) for group in faces["group"]])
    return 0.5 + 0.8 * (_ranks(faces) - 0.5) + recipe.bias * planted


def _sentences(words: pd.DataFrame, rank: np.ndarray, template_draw: np.ndarray) -> np.ndarray:
    by_word = words.pivot(index="word", columns="template", values="sentence")
    valence = words.groupby("word")["valence"].first()
    order = valence.reset_index().sort_values(["valence", "word"])["word"]
    grid = by_word.loc[order].to_numpy(dtype=object)
    picked: np.ndarray = grid[_pick(rank, len(grid)), _pick(template_draw, grid.shape[1])]
    return picked


def _labels(groups: np.ndarray, labels: pd.DataFrame, at_random: np.ndarray) -> np.ndarray:
    chosen = np.empty(len(groups), dtype=object)
    for group, rows in labels.groupby("group"):
        here = groups == group
        chosen[here] = rows["sentence"].to_numpy(dtype=object)[_pick(at_random[here], len(rows))]
    return chosen


def _pick(share: np.ndarray, count: int) -> np.ndarray:
    picked: np.ndarray = np.minimum((share * count).astype(int), count - 1)
    return picked
