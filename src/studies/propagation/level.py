"""Compute the signed level of carry-over: how much bias is retrieved (docs/methods.md, section 6.3)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import Replicates, compute_t_interval, replicate
from src.stimuli import CARRIES, Table
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.combined import LEVEL
from src.studies.propagation.null_models import NullModels, outcomes_of
from src.studies.propagation.null_scores import NullScores
from src.studies.propagation.similarity_blocks import SimilarityBlock
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.cluster_jackknife import build_subsamples

# An outcome is at a bound if its distance is at most this share of the range of possible outcomes.
NEAR_BOUND = 0.05
# An analysis is at its ceiling if at least this share of its targets is at a bound.
CEILING = 0.2
# Rounding tolerance of levels.
TOLERANCE = 1e-12


def compute_level_statistics(
    ratings: np.ndarray | None, in_group: np.ndarray, scores: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Compute level, measured level and slope in G weighted samples of targets.

    Args:
        ratings: [n] ratings of targets with valence; None for targets with groups.
        in_group: [n] mask of the targets of the analysis's group; unused with ratings.
        scores: [n, 2] difference of mean cosines and outcome of each target.
        weights: [G, n] weight of each target in each sample.

    Returns:
        [G, 3], NaN where undefined: level of the outcome, level of the difference of mean cosines (measured
        level), slope of the outcome on this difference. A level is the group's mean minus the mean of all
        other targets, or the change per SD (ddof 0) of the rating.
    """
    weights = weights.astype(float)
    scores = scores - scores.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = weights.sum(axis=1, keepdims=True)
        mean = weights @ scores / total
        covariance = weights @ scores.prod(axis=1) / total[:, 0] - mean.prod(axis=1)
        variance = weights @ scores[:, 0] ** 2 / total[:, 0] - mean[:, 0] ** 2
        # A variance within rounding error counts as 0.
        slope = np.where(variance > TOLERANCE**2, covariance / variance, math.nan)
        if ratings is None:
            group_weights, other_weights = weights * in_group, weights * ~in_group
            levels = group_weights @ scores / group_weights.sum(axis=1, keepdims=True)
            levels -= other_weights @ scores / other_weights.sum(axis=1, keepdims=True)
        else:
            centred = ratings - ratings.mean()
            mean_rating = weights @ centred / total[:, 0]
            spread = np.sqrt(weights @ centred**2 / total[:, 0] - mean_rating**2)
            levels = weights @ (centred[:, None] * scores) / total - mean_rating[:, None] * mean
            levels /= spread[:, None]
    return np.column_stack([levels[:, 1], levels[:, 0], slope])


class RetrievalCounts:
    """Number of retrievals of each exchange unit, per group of targets or weighted by their ratings."""

    def __init__(self, targets: Table, corpus: Corpus) -> None:
        self._corpus, frame = corpus, targets.frame
        self._groups: list[str] = []
        self._group_index = np.zeros(len(frame), dtype=np.int64)
        self._weights: np.ndarray | None = None
        if CARRIES[targets.role] == "group":
            self._groups = targets.groups
            self._group_index = np.searchsorted(self._groups, frame["group"].to_numpy(dtype=str))
        else:
            ratings = frame["valence"].to_numpy(dtype=float)
            spread = ratings.std()
            self._weights = (ratings - ratings.mean()) / (spread if spread > 0 else math.nan) / len(frame)
        self._sizes = np.bincount(self._group_index)
        self._counts = np.zeros((len(self._sizes), len(corpus.exchange.grid)))

    def add(self, block: SimilarityBlock) -> None:
        """Count the items retrieved for the targets of a block."""
        assert block.nearest is not None
        unit_of_item = self._corpus.exchange.unit_of_row[self._corpus.pools[block.pool_index].rows]
        retrieved = unit_of_item.take(block.nearest.numpy())
        first_positions = self._group_index[block.targets, None] * self._counts.shape[1]
        weights = None
        if self._weights is not None:
            weights = np.repeat(self._weights[block.targets], retrieved.shape[1])
        flat_positions = (retrieved + first_positions).reshape(-1)
        counts = np.bincount(flat_positions, weights, minlength=self._counts.size)
        self._counts += counts.reshape(self._counts.shape)

    def compute_levels(self, stratum: Stratum, outcomes: np.ndarray) -> np.ndarray:
        """Compute the level of a stratum for each column of outcomes [exchange units, R], [R]."""
        shares = self._counts / sum(pool.k for pool in self._corpus.pools)
        if self._weights is not None:
            return np.asarray(shares[0] @ outcomes)
        is_group = np.array(self._groups) == stratum.group
        if not is_group.any() or is_group.all():
            return np.full(outcomes.shape[1], math.nan)
        group_shares = shares[is_group][0] / self._sizes[is_group][0]
        other_shares = shares[~is_group].sum(axis=0) / self._sizes[~is_group].sum()
        return np.asarray((group_shares - other_shares) @ outcomes)


@dataclass(frozen=True)
class Levels:
    """Levels of all strata of an experiment.

    Attributes:
        rows: the columns `LEVEL` of each stratum.
        draws: level of each stratum under each permutation of the placebo: `stratum`, `draw` (0: observed),
            `level`.
        units: scores of each unit for each property: `property`, `id`, `group`, `valence`, clusters,
            `measured` (difference of mean cosines), `retrieved` (outcome).
    """

    rows: list[dict[str, Any]]
    draws: pd.DataFrame
    units: pd.DataFrame


def levels_of(
    targets: Table,
    corpus: Corpus,
    units: Units,
    unit_clusters: pd.DataFrame,
    strata: Sequence[Stratum],
    scores: tuple[np.ndarray, np.ndarray],
    counts: RetrievalCounts | None,
    null_scores: NullScores,
    placebo: NullModels | None,
    refusals: Mapping[str | None, str],
) -> Levels:
    """Compute the level of each stratum with its interval and, from the placebo's permutations, its p.

    Args:
        targets: table of the targets.
        corpus: corpus with its attribute sets.
        units: units of analysis.
        unit_clusters: clusters of each unit.
        strata: strata, one per analysis.
        scores: difference of mean cosines and outcome of each unit, each [units, S].
        counts: retrievals of all targets; None if the outcome retrieves nothing.
        null_scores: scores of sampled units under null models, for outcomes that retrieve nothing.
        placebo: null models of the placebo, or None.
        refusals: property of the corpus -> reason why it has no placebo.
    """
    frame = units.frame
    ratings = frame["valence"].to_numpy(dtype=float) if CARRIES[targets.role] == "valence" else None
    bounds = dict(_find_bounds(corpus))
    rows, tables = [], [pd.DataFrame({"stratum": [], "draw": [], "level": []})]
    for stratum in strata:
        row: dict[str, Any] = dict.fromkeys(LEVEL, math.nan)
        rows.append(row)
        values = np.column_stack([score[:, stratum.column] for score in scores])
        in_group = (frame["group"] == stratum.group).to_numpy()
        observed = compute_level_statistics(ratings, in_group, values, np.ones((1, len(frame))))[0]
        subsamples = build_subsamples(unit_clusters, () if ratings is not None else (in_group, ~in_group))
        replicates = replicate(subsamples, partial(compute_level_statistics, ratings, in_group, values))
        row |= _build_intervals(observed, replicates)
        row |= _describe_bounds(values[stratum.rows, 1], bounds[stratum.column])
        if placebo and corpus.properties[stratum.column] not in refusals:
            if counts:
                assert placebo.outcomes is not None
                outcomes = outcomes_of(corpus)[:, [stratum.column]], placebo.outcomes(stratum.column).numpy()
                levels = np.concatenate([counts.compute_levels(stratum, columns) for columns in outcomes])
            else:
                sampled = null_scores.sampled_units
                weights = _weigh_units(None if ratings is None else ratings[sampled], in_group[sampled])
                outcomes = values[sampled, 1:], null_scores.score_outcomes(placebo, stratum.column)
                levels = np.concatenate([weights @ columns for columns in outcomes])
            row |= _compare_with_null(levels)
            columns_of_draws = {"stratum": stratum.name, "draw": np.arange(len(levels)), "level": levels}
            tables.append(pd.DataFrame(columns_of_draws))
    draws = pd.concat(tables[1:] or tables, ignore_index=True)
    types = {"stratum": "string", "draw": "int32", "level": "float64"}
    return Levels(rows, draws.astype(types), _build_unit_table(corpus, units, unit_clusters, scores))


def _build_intervals(observed: np.ndarray, replicates: Replicates) -> dict[str, Any]:
    """Return level, measured level and slope with the ends of their intervals, and `df`."""
    row: dict[str, Any] = {"df": replicates.df}
    for name, value, variance in zip(
        ("level", "measured", "slope"), observed, replicates.variance(), strict=True
    ):
        low, high = compute_t_interval(float(value), float(variance), replicates.df)
        row |= {name: float(value), f"{name}_low": low, f"{name}_high": high}
    return row


def _weigh_units(ratings: np.ndarray | None, in_group: np.ndarray) -> np.ndarray:
    """Return the weight of each unit's outcome in the level, [n]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if ratings is None:
            return np.asarray(np.where(in_group, 1 / in_group.sum(), -1 / (~in_group).sum()))
        return np.asarray((ratings - ratings.mean()) / ratings.std() / len(ratings))


def _compare_with_null(levels: np.ndarray) -> dict[str, float]:
    """Return `level_p` and `level_z` of the observed level, the first of [R + 1]; empty if undefined."""
    distances, spread = np.abs(levels - levels.mean()), levels.std()
    if not np.isfinite(spread):
        return {}
    n_exceeding = int((distances >= distances[0] - TOLERANCE).sum())
    return {
        "level_p": n_exceeding / len(levels),
        "level_z": float((levels[0] - levels.mean()) / spread) if spread > 0 else 0.0,
    }


def _describe_bounds(outcomes: np.ndarray, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return bounds of outcomes, and shares of targets at a bound or with ties; empty without targets."""
    if not len(outcomes):
        return {}
    low, high = bounds
    margin = NEAR_BOUND * (high - low)
    at_bound = float(((outcomes <= low + margin) | (outcomes >= high - margin)).mean())
    _, inverse, counts = np.unique(outcomes, return_inverse=True, return_counts=True)
    return {
        "y_min": low,
        "y_max": high,
        "at_bound": at_bound,
        "ceiling": at_bound >= CEILING,
        "ties": float((counts[inverse] > 1).mean()),
    }


def _find_bounds(corpus: Corpus) -> Iterator[tuple[int, tuple[float, float]]]:
    """Yield the column of each property, and its smallest and largest possible outcome (mean over pools)."""
    for column in range(len(corpus.properties)):
        ends = []
        for pool in corpus.pools:
            outcomes = pool.outcomes[:, column]
            ordered = np.sort(outcomes if pool.retrievable is None else outcomes[pool.retrievable])
            # An outcome that retrieves nothing (k = 0) is a share.
            ends.append((ordered[: pool.k].mean(), ordered[-pool.k :].mean()) if pool.k else (0.0, 1.0))
        low, high = np.mean(ends, axis=0)
        yield column, (float(low), float(high))


def _build_unit_table(
    corpus: Corpus, units: Units, unit_clusters: pd.DataFrame, scores: tuple[np.ndarray, np.ndarray]
) -> pd.DataFrame:
    """Return the table `Levels.units`."""
    frame, tables = units.frame, []
    columns = {"id": frame["id"].to_numpy(), "group": pd.array(frame["group"].to_list(), dtype="string")}
    columns |= {"valence": frame["valence"].to_numpy(dtype=float)}
    columns |= {str(name): unit_clusters[name].to_numpy() for name in unit_clusters}
    if "template" in frame:
        columns["template"] = frame["template"].to_numpy()
    for column, name in enumerate(corpus.properties):
        unit_scores = {"measured": scores[0][:, column], "retrieved": scores[1][:, column]}
        tables.append(pd.DataFrame({"property": name, **columns, **unit_scores}))
    return pd.concat(tables, ignore_index=True).astype({"property": "string"})
