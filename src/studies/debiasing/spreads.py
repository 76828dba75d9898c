"""Compute the spread between groups in intrinsic scores and in retrieval, before and after debiasing."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from src.studies.shared.exchange_units import label_words
from src.studies.shared.resampling import weights

MEASURES = ("intrinsic", "extrinsic")
SCORES = [f"{measure}_{when}" for measure in MEASURES for when in ("before", "after")]
# Maximum number of weights in one block of draws: 32 MB as float64.
MAX_WEIGHTS = 2**22


def common_targets(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the targets that have all four `SCORES` in two jobs.

    The arguments are targets.parquet of each job; the table of a job without targets has no column `id`.
    """
    if "id" not in before or "id" not in after:
        return pd.DataFrame(columns=["stratum", "id", *SCORES])
    keys = [name for name in ("stratum", "id", "template") if name in before and name in after]
    merged = before.merge(after[[*keys, *MEASURES]], on=keys, suffixes=("_before", "_after"))
    return merged.dropna(subset=SCORES).reset_index(drop=True)


def spreads(
    targets: pd.DataFrame, *, labels: bool, draws: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the spread (population SD) over strata, one per group, of the mean scores of their targets.

    `targets` are rows of `common_targets`, resampled singly; with `labels` they are phrases, resampled by
    race word and by gender word. Draws are paired over models, methods, and strata with the same targets.

    Yields:
        For each of `MEASURES`: the spread before and after, [2]; the same for resampled targets, [2, draws];
        and the spread expected from the choice of targets alone if all groups' means were equal, [2]: the
        root mean square over the draws, after centring each group's means; NaN without draws.
    """
    observed, resampled = [], []
    members, counts = pd.DataFrame(), np.empty(0)
    for _, stratum_targets in targets.groupby("stratum", sort=True):
        stratum_members = _members(stratum_targets.reset_index(drop=True), labels)
        # Consecutive strata with the same targets share their weights.
        if not stratum_members.equals(members):
            members, counts = stratum_members, weights(stratum_members, draws, seed)
        scores = stratum_targets[SCORES].to_numpy(dtype=float)
        observed.append(scores.mean(axis=0))
        resampled.append(_means(scores, counts))
    means, samples = np.stack(observed), np.stack(resampled)
    for columns in (slice(0, 2), slice(2, 4)):  # before and after of each of `MEASURES`
        drawn_means, chance = samples[..., columns], np.full(2, np.nan)
        if draws:
            # A sample of phrases may be empty: its mean is NaN.
            centred = drawn_means - np.nanmean(drawn_means, axis=1, keepdims=True)
            chance = np.sqrt(np.nanmean(centred.var(axis=0), axis=0))
        yield means[:, columns].std(axis=0), drawn_means.std(axis=0).T, chance


def _members(targets: pd.DataFrame, labels: bool) -> pd.DataFrame:
    """Return the columns by which `weights` resamples the targets: names and, of phrases, their words."""
    members = pd.DataFrame({"name": targets["id"].astype(str)})
    if labels and "template" not in targets:
        return members.join(label_words(targets.assign(word=members["name"])))
    return members


def _means(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Compute the mean scores of each sample, [draws, scores]; NaN for an empty sample."""
    blocks = np.array_split(counts, max(1, -(-counts.size // MAX_WEIGHTS)))
    with np.errstate(invalid="ignore"):
        return np.concatenate(
            [(block @ scores) / block.sum(axis=1, dtype=float)[:, None] for block in blocks]
        )
