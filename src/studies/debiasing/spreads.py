"""How far apart groups lie, in what is measured and in what is retrieved, before and after debiasing."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.studies.shared.exchange_units import label_words
from src.studies.shared.resampling import PARENTS, WORDS, weights

MEASURES = ("intrinsic", "extrinsic")
SCORES = tuple(f"{measure}_{when}" for measure in MEASURES for when in ("before", "after"))
# Numbers in one block of draws: 32 MB as float64.
BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class Spread:
    """The spread over groups of their targets' mean score: population SD.

    Attributes:
        observed: [2], before and after.
        draws: [2, R], of resampled targets; R is 0 where nothing was resampled.
        chance: [2], what it would be if all groups' means were equal, by the choice of targets alone: root
            mean square over the draws, each group's means shifted to their own average. NaN without draws.
    """

    observed: np.ndarray
    draws: np.ndarray
    chance: np.ndarray


def units(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """The targets that both jobs have, with `SCORES`; those without one of the four are left out.

    Args:
        before, after: targets.parquet of the two jobs; without `id` where a job left none.
    """
    if "id" not in before or "id" not in after:
        return pd.DataFrame(columns=["stratum", "id", *SCORES])
    keys = [name for name in ("stratum", "id", "template") if name in before and name in after]
    other = after[[*keys, *MEASURES]]
    both = before.merge(other, on=keys, suffixes=("_before", "_after"))
    return both.dropna(subset=list(SCORES)).reset_index(drop=True)


def spreads(found: pd.DataFrame, *, labels: bool, draws: int, seed: int) -> dict[str, Spread]:
    """The spread of both scores over the strata, each of which is a group's.

    Args:
        found: see `units`.
        labels: whether the targets are phrases of a race word and a gender word, which are resampled by word.
        draws: how many samples of the targets, each by itself (sentences too, where these are the units);
            paired over models, methods, and strata of the same targets.
        seed: of the draw.

    Returns:
        Of each of `MEASURES`.
    """
    observed, drawn = [], []
    for _, own in found.groupby("stratum", sort=True):
        scores = own[list(SCORES)].to_numpy(dtype=float)
        observed.append(scores.mean(axis=0))
        drawn.append(_means(scores, _members(own, labels), draws, seed))
    means, samples = np.stack(observed), np.stack(drawn)
    result = {}
    for number, measure in enumerate(MEASURES):
        columns = slice(2 * number, 2 * number + 2)
        result[measure] = Spread(
            means[:, columns].std(axis=0), samples[..., columns].std(axis=0).T, _alike(samples[..., columns])
        )
    return result


def _alike(samples: np.ndarray) -> np.ndarray:
    """[2] of samples [groups, draws, 2]: `Spread.chance`."""
    if not samples.shape[1]:
        return np.full(2, np.nan)
    # A sample of phrases may be empty.
    centred = samples - np.nanmean(samples, axis=1, keepdims=True)
    found: np.ndarray = np.sqrt(np.nanmean(centred.var(axis=0), axis=0))
    return found


def _members(own: pd.DataFrame, labels: bool) -> pd.DataFrame:
    members = pd.DataFrame({"name": own["id"].astype(str)})
    if labels and "template" not in own:
        return pd.concat([members, label_words(own.assign(word=members["name"]))], axis=1)
    for shared in (PARENTS, WORDS):
        if set(shared) <= set(own):
            return members.join(own[list(shared)])
    return members


def _means(scores: np.ndarray, members: pd.DataFrame, draws: int, seed: int) -> np.ndarray:
    """[draws, scores] means of resampled units; NaN where a sample is empty."""
    if not draws:
        return np.empty((0, scores.shape[1]))
    columns = tuple(
        (str(name), tuple(column.astype(object).where(column.notna(), None)))
        for name, column in members.items()
    )
    counts = _weights(columns, draws, seed)
    parts = np.array_split(counts, -(-counts.size // BLOCK))
    with np.errstate(invalid="ignore"):
        return np.concatenate([(part @ scores) / part.sum(axis=1, dtype=float)[:, None] for part in parts])


@functools.lru_cache(maxsize=1)
def _weights(columns: tuple[tuple[str, tuple[str | None, ...]], ...], draws: int, seed: int) -> np.ndarray:
    # Strata that look up with the same targets come one after another.
    return weights(pd.DataFrame(dict(columns)), draws, seed)
