"""Estimate interval, placebo, validity and spread over A and B of rho (docs/methods.md, section 6)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import auc, permutation_p, weighted_spearman
from src.metrics.jackknife import fisher_transform, replicate, rho_interval
from src.stimuli import CARRIES, Table
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.combined import UNCERTAINTY
from src.studies.propagation.null_scores import Sample, correlate
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.cluster_jackknife import deletions


@dataclass(frozen=True)
class ScorePair:
    """Both scores [units, S] of each unit."""

    intrinsic: np.ndarray
    extrinsic: np.ndarray


def uncertainty_of(
    targets: Table,
    corpus: Corpus,
    units: Units,
    ways: pd.DataFrame,
    strata: Sequence[Stratum],
    scores: ScorePair,
    sample: Sample,
    refusals: Mapping[str | None, str],
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Return `UNCERTAINTY` of the rho of each stratum, and all draws: `stratum`, `kind`, `draw`, `rho`.

    The sample must have received all similarities. `ways` are the clusters of each unit; `refusals` are the
    properties without a placebo.
    """
    draws_by_kind: list[dict[str, np.ndarray]] = [{} for _ in strata]
    for number, kind, values in sample.rhos(scores.intrinsic, scores.extrinsic):
        if kind != "placebo" or corpus.properties[strata[number].column] not in refusals:
            draws_by_kind[number][kind] = values
    rows, tables = [], [pd.DataFrame(columns=["stratum", "kind", "draw", "rho"])]
    for number, (stratum, draws) in enumerate(zip(strata, draws_by_kind, strict=True)):
        row = dict.fromkeys(UNCERTAINTY, math.nan) | {"placebo_n": None}
        row["validity"] = _validity(targets, units, stratum, scores, corpus.properties)
        row["ci_low"], row["ci_high"] = _interval(ways, units, stratum, scores)
        log_placements, movable = corpus.exchange.count(corpus.properties[stratum.column])
        row |= {"log10_placements": log_placements, "movable": movable}
        rows.append(row | _summarise(draws, number, scores, sample))
        for kind, values in sorted(draws.items()):
            labels = {"stratum": stratum.name, "kind": kind, "draw": np.arange(len(values))}
            tables.append(pd.DataFrame({**labels, "rho": values}))
    table = pd.concat(tables[1:] or tables, ignore_index=True)
    return rows, table.astype({"stratum": "string", "kind": "string", "draw": "int32", "rho": "float64"})


def _summarise(
    draws: Mapping[str, np.ndarray], number: int, scores: ScorePair, sample: Sample
) -> dict[str, Any]:
    """Summarise draws by their kind, for the stratum of this number."""
    row: dict[str, Any] = {}
    if "attributes" in draws:
        first, second = draws["attributes"].reshape(-1, 2).T
        row["sd_attributes"] = float(np.sqrt(np.mean((first - second) ** 2) / 2))
    if "placebo" in draws:
        observed, n = sample.observed(number, "placebo", scores.intrinsic, scores.extrinsic)
        row["placebo_mean"], row["placebo_q95"] = _mean_and_q95(draws["placebo"])
        row["p_placebo"] = permutation_p(draws["placebo"], observed)
        row |= {"placebo_n": n, "rho_placebo_units": observed}
    if "property" in draws and np.isfinite(draws["property"]).any():
        low, high = np.nanquantile(draws["property"], [0.05, 0.95])
        row |= {"property_q05": float(low), "property_q95": float(high)}
        observed, _ = sample.observed(number, "property", scores.intrinsic, scores.extrinsic)
        row["rho_property_units"] = observed
    return row


def _interval(ways: pd.DataFrame, units: Units, stratum: Stratum, scores: ScorePair) -> tuple[float, float]:
    """Compute the jackknife interval of the stratum's rho; NaN, NaN where it is refused."""
    x, y = (score[stratum.rows, stratum.column] for score in (scores.intrinsic, scores.extrinsic))
    return rho_interval_of(x, y, ways.iloc[stratum.rows], units.blocks[stratum.rows])


def rho_interval_of(
    x: np.ndarray, y: np.ndarray, ways: pd.DataFrame, blocks: np.ndarray
) -> tuple[float, float]:
    """Compute the jackknife interval of Spearman's rho of two scores [n], the mean over blocks.

    A unit without an intrinsic score belongs to no cluster of the analysis.
    """
    defined = ~(np.isnan(x) | np.isnan(y))
    if not defined.any():
        return math.nan, math.nan
    x, y, blocks, removed = x[defined], y[defined], blocks[defined], deletions(ways[defined])
    if removed.reason:
        return math.nan, math.nan

    def rhos(weights: np.ndarray) -> np.ndarray:
        return mean_rhos(x, y, weights, blocks)[:, None]

    rho = float(rhos(np.ones((1, len(x)), dtype=bool))[0, 0])
    variance = replicate(removed, rhos).variance(fisher_transform)
    return rho_interval(rho, float(variance[0]), removed.df)


def mean_rhos(x: np.ndarray, y: np.ndarray, weights: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of samples [G] with weights [G, n]: the mean over blocks of units."""
    masks = [blocks == block for block in np.unique(blocks)]
    rhos = [weighted_spearman(x[mask], y[mask], weights[:, mask].astype(np.int16)) for mask in masks]
    return np.asarray(np.mean(rhos, axis=0))


def _mean_and_q95(rhos: np.ndarray) -> tuple[float, float]:
    finite = rhos[np.isfinite(rhos)]
    if not len(finite):
        return math.nan, math.nan
    return float(finite.mean()), float(np.quantile(finite, 0.95))


def _validity(
    targets: Table, units: Units, stratum: Stratum, scores: ScorePair, properties: list[str | None]
) -> float:
    """Compute the agreement of the intrinsic score with the property of all targets; NaN where none is known.

    Spearman's rho with the targets' ratings, or the AUC of the group's targets against all others.
    """
    x, carried = scores.intrinsic[:, stratum.column], CARRIES[targets.role]
    defined = ~np.isnan(x)
    if carried == "valence" and properties == [None] and defined.any():
        valence = units.frame["valence"].to_numpy(dtype=float)[defined, None]
        return float(correlate(x[defined, None], valence, units.blocks[defined])[0])
    if carried == "group" and properties != [None]:
        in_group = (units.frame["group"] == stratum.group).to_numpy()
        return auc(x[in_group], x[~in_group])
    return math.nan
