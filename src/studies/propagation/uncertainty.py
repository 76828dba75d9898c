"""Estimate the interval, null distributions and validity of rho (docs/methods.md, section 6)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import auc, permutation_p, weighted_spearman
from src.metrics.jackknife import compute_rho_interval, fisher_transform, replicate
from src.stimuli import CARRIES, Table
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.combined import UNCERTAINTY
from src.studies.propagation.null_models import ATTRIBUTES, PLACEBO, PROPERTY
from src.studies.propagation.null_scores import NullScores, correlate_columns
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.cluster_jackknife import build_subsamples


@dataclass(frozen=True)
class ScorePair:
    """Intrinsic and extrinsic score of each unit, [units, S]."""

    intrinsic: np.ndarray
    extrinsic: np.ndarray


def uncertainty_of(
    targets: Table,
    corpus: Corpus,
    units: Units,
    unit_clusters: pd.DataFrame,
    strata: Sequence[Stratum],
    scores: ScorePair,
    null_scores: NullScores,
    refusals: Mapping[str | None, str],
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Return the columns `UNCERTAINTY` of each stratum, and rho under each null model.

    Args:
        targets: table of the targets.
        corpus: corpus with its attribute sets.
        units: units of analysis.
        unit_clusters: clusters of each unit.
        strata: strata, one per analysis.
        scores: observed scores of the units.
        null_scores: scores under null models, to which all similarities have been added.
        refusals: property of the corpus -> reason why it has no placebo.

    Returns:
        Columns of each stratum; table of draws: `stratum`, `kind`, `draw`, `rho`.
    """
    draws_by_kind: list[dict[str, np.ndarray]] = [{} for _ in strata]
    for index, kind, rhos in null_scores.compute_rhos(scores.intrinsic, scores.extrinsic):
        if kind != PLACEBO or corpus.properties[strata[index].column] not in refusals:
            draws_by_kind[index][kind] = rhos
    rows, tables = [], [pd.DataFrame(columns=["stratum", "kind", "draw", "rho"])]
    for index, (stratum, draws) in enumerate(zip(strata, draws_by_kind, strict=True)):
        row = dict.fromkeys(UNCERTAINTY, math.nan) | {"placebo_n": None}
        row["validity"] = _compute_validity(targets, units, stratum, scores, corpus.properties)
        row["ci_low"], row["ci_high"] = _compute_interval(unit_clusters, units, stratum, scores)
        log_placements, movable = corpus.exchange.count_placements(corpus.properties[stratum.column])
        row |= {"log10_placements": log_placements, "movable": movable}
        rows.append(row | _summarise(draws, index, scores, null_scores))
        for kind, rhos in sorted(draws.items()):
            labels = {"stratum": stratum.name, "kind": kind, "draw": np.arange(len(rhos))}
            tables.append(pd.DataFrame({**labels, "rho": rhos}))
    table = pd.concat(tables[1:] or tables, ignore_index=True)
    return rows, table.astype({"stratum": "string", "kind": "string", "draw": "int32", "rho": "float64"})


def _summarise(
    draws: Mapping[str, np.ndarray], stratum: int, scores: ScorePair, null_scores: NullScores
) -> dict[str, Any]:
    """Summarise the draws of each kind for the stratum at this position, in columns of `UNCERTAINTY`."""
    row: dict[str, Any] = {}
    if ATTRIBUTES in draws:
        first, second = draws[ATTRIBUTES].reshape(-1, 2).T
        row["sd_attributes"] = float(np.sqrt(np.mean((first - second) ** 2) / 2))
    if PLACEBO in draws:
        observed, n = null_scores.observed_rho(stratum, PLACEBO, scores.intrinsic, scores.extrinsic)
        row["placebo_mean"], row["placebo_q95"] = _compute_mean_and_q95(draws[PLACEBO])
        row["p_placebo"] = permutation_p(draws[PLACEBO], observed)
        row |= {"placebo_n": n, "rho_placebo_units": observed}
    if PROPERTY in draws and np.isfinite(draws[PROPERTY]).any():
        low, high = np.nanquantile(draws[PROPERTY], [0.05, 0.95])
        row |= {"property_q05": float(low), "property_q95": float(high)}
        row["rho_property_units"], _ = null_scores.observed_rho(
            stratum, PROPERTY, scores.intrinsic, scores.extrinsic
        )
    return row


def _compute_interval(
    unit_clusters: pd.DataFrame, units: Units, stratum: Stratum, scores: ScorePair
) -> tuple[float, float]:
    """Compute the jackknife interval of a stratum's rho; NaN, NaN if it is undefined."""
    x, y = (score[stratum.rows, stratum.column] for score in (scores.intrinsic, scores.extrinsic))
    return rho_interval_of(x, y, unit_clusters.iloc[stratum.rows], units.blocks[stratum.rows])


def rho_interval_of(
    x: np.ndarray, y: np.ndarray, unit_clusters: pd.DataFrame, blocks: np.ndarray
) -> tuple[float, float]:
    """Compute the jackknife interval of Spearman's rho of two scores [n], averaged over blocks.

    Units without a score are left out, before clusters are counted. NaN, NaN with fewer than 5 clusters.
    """
    defined = ~(np.isnan(x) | np.isnan(y))
    if not defined.any():
        return math.nan, math.nan
    x, y, blocks = x[defined], y[defined], blocks[defined]
    subsamples = build_subsamples(unit_clusters[defined])
    if subsamples.reason:
        return math.nan, math.nan

    def rhos(weights: np.ndarray) -> np.ndarray:
        return compute_mean_rhos(x, y, weights, blocks)[:, None]

    rho = float(rhos(np.ones((1, len(x)), dtype=bool))[0, 0])
    variance = replicate(subsamples, rhos).variance(fisher_transform)
    return compute_rho_interval(rho, float(variance[0]), subsamples.df)


def compute_mean_rhos(x: np.ndarray, y: np.ndarray, weights: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of two scores [n] in G weighted samples, averaged over blocks of units, [G]."""
    masks = [blocks == block for block in np.unique(blocks)]
    rhos = [weighted_spearman(x[mask], y[mask], weights[:, mask].astype(np.int16)) for mask in masks]
    return np.asarray(np.mean(rhos, axis=0))


def _compute_mean_and_q95(rhos: np.ndarray) -> tuple[float, float]:
    finite = rhos[np.isfinite(rhos)]
    if not len(finite):
        return math.nan, math.nan
    return float(finite.mean()), float(np.quantile(finite, 0.95))


def _compute_validity(
    targets: Table, units: Units, stratum: Stratum, scores: ScorePair, properties: list[str | None]
) -> float:
    """Compute how well the intrinsic score of all targets agrees with their property, if both are comparable.

    Spearman's rho with the targets' ratings, or the AUC of the group's targets against all others; NaN if the
    targets carry another property than the corpus.
    """
    x, target_property = scores.intrinsic[:, stratum.column], CARRIES[targets.role]
    defined = ~np.isnan(x)
    if target_property == "valence" and properties == [None] and defined.any():
        valence = units.frame["valence"].to_numpy(dtype=float)[defined, None]
        return float(correlate_columns(x[defined, None], valence, units.blocks[defined])[0])
    if target_property == "group" and properties != [None]:
        in_group = (units.frame["group"] == stratum.group).to_numpy()
        return auc(x[in_group], x[~in_group])
    return math.nan
