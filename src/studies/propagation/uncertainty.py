"""Estimate the interval, placebo, validity and spread over A and B of rho (docs/methods.md, section 6)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import auc, interval, permutation_p, weighted_spearman
from src.stimuli import CARRIES, Table
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.combined import UNCERTAINTY
from src.studies.propagation.null_scores import Sample, correlate
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.exchange_units import label_words
from src.studies.shared.resampling import PARENTS, WORDS, weights


@dataclass(frozen=True)
class ScorePair:
    """Both scores [units, S] of each unit."""

    intrinsic: np.ndarray
    extrinsic: np.ndarray


def uncertainty_of(
    targets: Table, corpus: Corpus, units: Units, strata: Sequence[Stratum], scores: ScorePair, sample: Sample
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Return `UNCERTAINTY` of the rho of each stratum, and all draws: `stratum`, `kind`, `draw`, `rho`.

    The sample must have received all similarities.
    """
    rhos: list[dict[str, np.ndarray]] = [{} for _ in strata]
    for number, kind, values in sample.rhos(scores.intrinsic, scores.extrinsic):
        rhos[number][kind] = values
    bootstrap = _Bootstrap(_members(targets, units), corpus)
    rows, tables = [], [pd.DataFrame(columns=["stratum", "kind", "draw", "rho"])]
    for number, (stratum, draws_by_kind) in enumerate(zip(strata, rhos, strict=True)):
        if corpus.protocol.bootstrap and len(stratum.rows):
            draws_by_kind["bootstrap"] = bootstrap.rhos(units, stratum, scores)
        row = dict.fromkeys(UNCERTAINTY, math.nan) | {"placebo_n": None}
        row["validity"] = _validity(targets, units, stratum, scores, corpus.properties)
        observed, n = sample.observed(number, scores.intrinsic, scores.extrinsic)
        rows.append(row | _summarise(draws_by_kind, observed, n))
        for kind, values in sorted(draws_by_kind.items()):
            labels = {"stratum": stratum.name, "kind": kind, "draw": np.arange(len(values))}
            tables.append(pd.DataFrame({**labels, "rho": values}))
    draws = pd.concat(tables[1:] or tables, ignore_index=True)
    return rows, draws.astype({"stratum": "string", "kind": "string", "draw": "int32", "rho": "float64"})


def _summarise(draws_by_kind: Mapping[str, np.ndarray], observed: float, n: int) -> dict[str, Any]:
    """Summarise draws by their kind, given the observed rho on the `n` sampled units of the stratum."""
    row: dict[str, Any] = {}
    if "bootstrap" in draws_by_kind:
        row["ci_low"], row["ci_high"] = interval(draws_by_kind["bootstrap"])
    if "attributes" in draws_by_kind:
        rhos = draws_by_kind["attributes"]
        row["sd_attributes"] = float(rhos.std(ddof=1)) if len(rhos) > 1 else math.nan
    if "placebo" in draws_by_kind:
        row["placebo_mean"], row["placebo_q95"] = _mean_and_q95(draws_by_kind["placebo"])
        row["p_placebo"] = permutation_p(draws_by_kind["placebo"], observed)
        row |= {"placebo_n": n, "rho_placebo_units": observed}
    if "family" in draws_by_kind:
        row["family_q95"] = _mean_and_q95(draws_by_kind["family"])[1]
        row["family_p"] = permutation_p(draws_by_kind["family"], observed)
    if "property" in draws_by_kind and np.isfinite(draws_by_kind["property"]).any():
        low, high = np.nanquantile(draws_by_kind["property"], [0.05, 0.95])
        row |= {"property_q05": float(low), "property_q95": float(high)}
    return row


def _mean_and_q95(rhos: np.ndarray) -> tuple[float, float]:
    finite = rhos[np.isfinite(rhos)]
    if not len(finite):
        return math.nan, math.nan
    return float(finite.mean()), float(np.quantile(finite, 0.95))


def _members(targets: Table, units: Units) -> pd.DataFrame:
    """Return the name of each unit with its parents or words, which are resampled instead of the unit."""
    frame = targets.frame.iloc[units.rows[:, 0]].reset_index(drop=True)
    origins = frame[[column for column in (*PARENTS, *WORDS) if column in frame.columns]]
    if targets.role == "labels":
        origins = label_words(frame)
    return pd.concat([units.frame[["name"]], origins.reset_index(drop=True)], axis=1)


class _Bootstrap:
    """Bootstrap of each stratum; consecutive strata of the same units share samples."""

    def __init__(self, members: pd.DataFrame, corpus: Corpus) -> None:
        self._members, self._corpus = members, corpus
        self._rows, self._weights = np.empty(0, dtype=np.int64), np.empty((0, 0))

    def rhos(self, units: Units, stratum: Stratum, scores: ScorePair) -> np.ndarray:
        """Return rho of the stratum in each draw, [draws]."""
        rows = stratum.rows
        if not np.array_equal(rows, self._rows):
            self._rows, protocol = rows, self._corpus.protocol
            self._weights = weights(self._members.iloc[rows], protocol.bootstrap, self._corpus.seed)
        x, y = (score[rows, stratum.column] for score in (scores.intrinsic, scores.extrinsic))
        blocks = units.blocks[rows]
        masks = [blocks == block for block in np.unique(blocks)]
        rhos = [weighted_spearman(x[mask], y[mask], self._weights[:, mask]) for mask in masks]
        return np.asarray(np.mean(rhos, axis=0))


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
