"""Compute the signed level of carry-over: how much bias is retrieved (docs/methods.md, section 6.3)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import Replicates, replicate, t_interval
from src.stimuli import CARRIES, Table
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.combined import LEVEL
from src.studies.propagation.null_models import NullModels, outcomes_of
from src.studies.propagation.null_scores import Sample
from src.studies.propagation.similarity_blocks import SimilarityBlock
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.cluster_jackknife import deletions

# An outcome within this share of the range of possible outcomes is at its bound; an analysis with this share
# of targets at a bound is at its ceiling.
NEAR_BOUND, CEILING = 0.05, 0.2
TOLERANCE = 1e-12


def summarise(
    ratings: np.ndarray | None, in_group: np.ndarray, scores: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Compute level, measured level and slope of weighted targets, [G, 3].

    Args:
        ratings: [n] ratings of targets with valence; None for targets with groups.
        in_group: [n] whether a target is of the analysis's group; unused with ratings.
        scores: [n, 2] difference of mean cosines and outcome of each target.
        weights: [G, n] weight of each target, in G samples.

    Returns:
        Level and measured level: own mean less that of the others, or the change per SD (ddof 0) of the
        rating. Slope: outcome per unit of the difference of mean cosines. NaN where undefined.
    """
    weights = weights.astype(float)
    scores = scores - scores.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = weights.sum(axis=1, keepdims=True)
        mean = weights @ scores / total
        covariance = weights @ scores.prod(axis=1) / total[:, 0] - mean.prod(axis=1)
        variance = weights @ scores[:, 0] ** 2 / total[:, 0] - mean[:, 0] ** 2
        # A variance of rounding errors is none.
        slope = np.where(variance > TOLERANCE**2, covariance / variance, math.nan)
        if ratings is None:
            of_group, of_others = weights * in_group, weights * ~in_group
            levels = of_group @ scores / of_group.sum(axis=1, keepdims=True)
            levels -= of_others @ scores / of_others.sum(axis=1, keepdims=True)
        else:
            centred = ratings - ratings.mean()
            mean_rating = weights @ centred / total[:, 0]
            spread = np.sqrt(weights @ centred**2 / total[:, 0] - mean_rating**2)
            levels = weights @ (centred[:, None] * scores) / total - mean_rating[:, None] * mean
            levels /= spread[:, None]
    return np.column_stack([levels[:, 1], levels[:, 0], slope])


class RetrievalCounts:
    """Number of retrievals of each exchange unit: by group of the targets, or weighted by their ratings."""

    def __init__(self, targets: Table, corpus: Corpus) -> None:
        self._corpus, frame = corpus, targets.frame
        self._groups: list[str] = []
        self._number = np.zeros(len(frame), dtype=np.int64)
        self._weights: np.ndarray | None = None
        if CARRIES[targets.role] == "group":
            self._groups = targets.groups
            self._number = np.searchsorted(self._groups, frame["group"].to_numpy(dtype=str))
        else:
            ratings = frame["valence"].to_numpy(dtype=float)
            spread = ratings.std()
            self._weights = (ratings - ratings.mean()) / (spread if spread > 0 else math.nan) / len(frame)
        self._sizes = np.bincount(self._number)
        self._counts = np.zeros((len(self._sizes), len(corpus.exchange.grid)))

    def add(self, block: SimilarityBlock) -> None:
        """Count the items retrieved for the targets of a block."""
        assert block.nearest is not None
        units = self._corpus.exchange.unit_of_row[self._corpus.pools[block.pool].rows]
        retrieved = units.take(block.nearest.numpy())
        flat = (retrieved + self._number[block.targets, None] * self._counts.shape[1]).reshape(-1)
        weights = None
        if self._weights is not None:
            weights = np.repeat(self._weights[block.targets], retrieved.shape[1])
        self._counts += np.bincount(flat, weights, minlength=self._counts.size).reshape(self._counts.shape)

    def null(self, stratum: Stratum, outcomes: np.ndarray) -> np.ndarray:
        """Return the level of a stratum for each column of outcomes [exchange units, R], [R]."""
        shares = self._counts / sum(pool.k for pool in self._corpus.pools)
        if self._weights is not None:
            return np.asarray(shares[0] @ outcomes)
        is_group = np.array(self._groups) == stratum.group
        if not is_group.any() or is_group.all():
            return np.full(outcomes.shape[1], math.nan)
        of_others = shares[~is_group].sum(axis=0) / self._sizes[~is_group].sum()
        return np.asarray((shares[is_group][0] / self._sizes[is_group][0] - of_others) @ outcomes)


@dataclass(frozen=True)
class Levels:
    """Levels of all strata of an experiment.

    Attributes:
        rows: columns `LEVEL` of each stratum.
        draws: `stratum`, `draw` (0: observed) and `level` under the placebo's permutations.
        units: row per target and property: `property`, `id`, `group`, `valence`, clusters, `measured` (the
            difference of mean cosines) and `retrieved` (the outcome).
    """

    rows: list[dict[str, Any]]
    draws: pd.DataFrame
    units: pd.DataFrame


def levels_of(
    targets: Table,
    corpus: Corpus,
    units: Units,
    ways: pd.DataFrame,
    strata: Sequence[Stratum],
    scores: tuple[np.ndarray, np.ndarray],
    counts: RetrievalCounts | None,
    sample: Sample,
    placebo: NullModels | None,
    refusals: Mapping[str | None, str],
) -> Levels:
    """Compute the level of each stratum with its interval and, from the placebo's permutations, its p.

    Args:
        targets: table of the targets.
        corpus: corpus with its attribute sets.
        units: units of analysis.
        ways: clusters of each unit.
        strata: strata, one per analysis.
        scores: difference of mean cosines and outcome of each unit, each [units, S].
        counts: retrievals of all targets; None for an outcome that retrieves nothing.
        sample: sampled units, on which the null of such an outcome is computed.
        placebo: null models of the placebo; None without one.
        refusals: properties that have no placebo.
    """
    frame = units.frame
    ratings = frame["valence"].to_numpy(dtype=float) if CARRIES[targets.role] == "valence" else None
    bounds = dict(_bounds(corpus))
    rows, draws = [], [pd.DataFrame({"stratum": [], "draw": [], "level": []})]
    for stratum in strata:
        row: dict[str, Any] = dict.fromkeys(LEVEL, math.nan)
        rows.append(row)
        values = np.column_stack([score[:, stratum.column] for score in scores])
        in_group = (frame["group"] == stratum.group).to_numpy()
        observed = summarise(ratings, in_group, values, np.ones((1, len(frame))))[0]
        removed = deletions(ways, () if ratings is not None else (in_group, ~in_group))
        replicates = replicate(removed, partial(summarise, ratings, in_group, values))
        row |= _intervals(observed, replicates)
        row |= _flags(values[stratum.rows, 1], bounds[stratum.column])
        if placebo and corpus.properties[stratum.column] not in refusals:
            if counts:
                assert placebo.outcomes is not None
                outcomes = outcomes_of(corpus)[:, [stratum.column]], placebo.outcomes(stratum.column).numpy()
                null = np.concatenate([counts.null(stratum, values) for values in outcomes])
            else:
                weights = _weights(None if ratings is None else ratings[sample.units], in_group[sample.units])
                outcomes = values[sample.units, 1:], sample.null_outcomes(placebo, stratum.column)
                null = np.concatenate([weights @ scores_of_units for scores_of_units in outcomes])
            row |= _against(null)
            table = {"stratum": stratum.name, "draw": np.arange(len(null)), "level": null}
            draws.append(pd.DataFrame(table))
    draw_table = pd.concat(draws[1:] or draws, ignore_index=True)
    types = {"stratum": "string", "draw": "int32", "level": "float64"}
    return Levels(rows, draw_table.astype(types), _unit_table(corpus, units, ways, scores))


def _intervals(observed: np.ndarray, replicates: Replicates) -> dict[str, Any]:
    row: dict[str, Any] = {"df": replicates.df}
    for name, value, variance in zip(
        ("level", "measured", "slope"), observed, replicates.variance(), strict=True
    ):
        low, high = t_interval(float(value), float(variance), replicates.df)
        row |= {name: float(value), f"{name}_low": low, f"{name}_high": high}
    return row


def _weights(ratings: np.ndarray | None, in_group: np.ndarray) -> np.ndarray:
    """Return the weights [n] of outcomes in the level."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if ratings is None:
            return np.asarray(np.where(in_group, 1 / in_group.sum(), -1 / (~in_group).sum()))
        return np.asarray((ratings - ratings.mean()) / ratings.std() / len(ratings))


def _against(null: np.ndarray) -> dict[str, float]:
    """Compare the observed level, the first of all [R + 1], with the others in units of their SD."""
    distances, spread = np.abs(null - null.mean()), null.std()
    if not np.isfinite(spread):
        return {}
    reached = int((distances >= distances[0] - TOLERANCE).sum())
    return {
        "level_p": reached / len(null),
        "level_z": float((null[0] - null.mean()) / spread) if spread > 0 else 0.0,
    }


def _flags(outcome: np.ndarray, bounds: tuple[float, float]) -> dict[str, Any]:
    """Describe whether outcomes of an analysis's targets reach their bounds, and how many are tied."""
    if not len(outcome):
        return {}
    low, high = bounds
    margin = NEAR_BOUND * (high - low)
    at_bound = float(((outcome <= low + margin) | (outcome >= high - margin)).mean())
    _, inverse, counts = np.unique(outcome, return_inverse=True, return_counts=True)
    return {
        "y_min": low,
        "y_max": high,
        "at_bound": at_bound,
        "ceiling": at_bound >= CEILING,
        "ties": float((counts[inverse] > 1).mean()),
    }


def _bounds(corpus: Corpus) -> Iterator[tuple[int, tuple[float, float]]]:
    """Yield the smallest and largest possible outcome of each property, the mean over pools."""
    for column in range(len(corpus.properties)):
        ends = []
        for pool in corpus.pools:
            outcomes = pool.outcomes[:, column]
            ordered = np.sort(outcomes if pool.retrievable is None else outcomes[pool.retrievable])
            # Without retrieval the outcome is a share.
            ends.append((ordered[: pool.k].mean(), ordered[-pool.k :].mean()) if pool.k else (0.0, 1.0))
        low, high = np.mean(ends, axis=0)
        yield column, (float(low), float(high))


def _unit_table(
    corpus: Corpus, units: Units, ways: pd.DataFrame, scores: tuple[np.ndarray, np.ndarray]
) -> pd.DataFrame:
    frame, tables = units.frame, []
    about = {"id": frame["id"].to_numpy(), "group": pd.array(frame["group"].to_list(), dtype="string")}
    about |= {"valence": frame["valence"].to_numpy(dtype=float)}
    about |= {str(name): ways[name].to_numpy() for name in ways}
    if "template" in frame:
        about["template"] = frame["template"].to_numpy()
    for column, name in enumerate(corpus.properties):
        values = {"measured": scores[0][:, column], "retrieved": scores[1][:, column]}
        tables.append(pd.DataFrame({"property": name, **about, **values}))
    return pd.concat(tables, ignore_index=True).astype({"property": "string"})
