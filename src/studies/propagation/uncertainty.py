"""What a rho is worth: interval, placebo, validity, spread over A and B (docs/methods.md, section 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import auc, interval, weighted_spearman
from src.stimuli import CARRIES, Table
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.null_scores import Sample, agreement
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.exchange_units import label_words
from src.studies.shared.p_values import reached
from src.studies.shared.resampling import weights

# Columns of analyses.csv.
COLUMNS = (
    *("ci_low", "ci_high", "sd_attributes", "validity", "placebo_mean", "placebo_q95", "p_placebo"),
    *("placebo_n", "rho_placebo_units", "family_q95", "family_p", "property_q05", "property_q95"),
)
# Columns of a table of stimuli that tell which units are resampled together.
SHARED = ("parent_a", "parent_b", "race_word", "gender_word")


@dataclass(frozen=True)
class Scored:
    """Both scores of each unit.

    Attributes:
        intrinsic, extrinsic: [units, S].
    """

    intrinsic: np.ndarray
    extrinsic: np.ndarray


def worth(
    targets: Table, corpus: Corpus, units: Units, strata: Sequence[Stratum], scored: Scored, sample: Sample
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """What the rho of each stratum is worth.

    Args:
        targets: what was looked up with.
        corpus: what was retrieved from.
        units, strata: of the experiment.
        scored: both scores of each unit.
        sample: has seen all similarities.

    Returns:
        `COLUMNS` of each stratum, and all draws: `stratum`, `kind`, `draw`, `rho`.
    """
    rhos: dict[tuple[int, str], np.ndarray] = {
        (number, kind): found for number, kind, found in sample.rhos(scored.intrinsic, scored.extrinsic)
    }
    resampled = _Resampled(_members(targets, units), corpus)
    rows = []
    for number, stratum in enumerate(strata):
        if corpus.protocol.bootstrap and len(stratum.rows):
            rhos[number, "bootstrap"] = resampled.rhos(units, stratum, scored)
        row = dict.fromkeys(COLUMNS, math.nan) | {"placebo_n": None}
        row["validity"] = _validity(targets, units, stratum, scored, corpus.contents)
        kinds = {kind: found for (owner, kind), found in rhos.items() if owner == number}
        rows.append(row | _columns(kinds, *sample.observed(number, scored.intrinsic, scored.extrinsic)))
    tables = [
        pd.DataFrame({"draw": np.arange(len(found)), "rho": found}).assign(
            stratum=strata[number].name, kind=kind
        )
        for (number, kind), found in sorted(rhos.items())
    ]
    empty = pd.DataFrame({"stratum": [], "kind": [], "draw": [], "rho": []})
    draws = pd.concat(tables, ignore_index=True) if tables else empty
    draws = draws[["stratum", "kind", "draw", "rho"]]
    return rows, draws.astype({"stratum": "string", "kind": "string", "draw": "int32", "rho": "float64"})


def _columns(kinds: Mapping[str, np.ndarray], observed: float, n: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if "bootstrap" in kinds:
        row["ci_low"], row["ci_high"] = interval(kinds["bootstrap"])
    if "attributes" in kinds:
        drawn = kinds["attributes"]
        row["sd_attributes"] = float(drawn.std(ddof=1)) if len(drawn) > 1 else math.nan
    if "placebo" in kinds:
        mean, q95 = _spread(kinds["placebo"])
        row |= {"placebo_mean": mean, "placebo_q95": q95, "p_placebo": reached(kinds["placebo"], observed)}
        row |= {"placebo_n": n, "rho_placebo_units": observed}
    if "family" in kinds:
        row |= {"family_q95": _spread(kinds["family"])[1], "family_p": reached(kinds["family"], observed)}
    if "property" in kinds and np.isfinite(kinds["property"]).any():
        low, high = np.nanquantile(kinds["property"], [0.05, 0.95])
        row |= {"property_q05": float(low), "property_q95": float(high)}
    return row


def _spread(rhos: np.ndarray) -> tuple[float, float]:
    finite = rhos[np.isfinite(rhos)]
    if not len(finite):
        return math.nan, math.nan
    return float(finite.mean()), float(np.quantile(finite, 0.95))


def _members(targets: Table, units: Units) -> pd.DataFrame:
    """Of each unit its name, and what it shares with others: parents, or words of a phrase."""
    frame = targets.frame.iloc[units.rows[:, 0]].reset_index(drop=True)
    shared = frame[[column for column in SHARED if column in frame.columns]]
    if targets.role == "labels":
        shared = label_words(frame)
    return pd.concat([units.frame[["name"]], shared.reset_index(drop=True)], axis=1)


class _Resampled:
    """The bootstrap of each stratum; strata of the same units, one after another, share their samples."""

    def __init__(self, members: pd.DataFrame, corpus: Corpus) -> None:
        self._members, self._corpus = members, corpus
        self._rows, self._weights = np.empty(0, dtype=np.int64), np.empty((0, 0))

    def rhos(self, units: Units, stratum: Stratum, scored: Scored) -> np.ndarray:
        """[draws] rho of the stratum."""
        rows = stratum.rows
        if not np.array_equal(rows, self._rows):
            chosen = self._members.iloc[rows]
            self._rows = rows
            self._weights = weights(chosen, self._corpus.protocol.bootstrap, self._corpus.seed)
        x, y = (score[rows, stratum.content] for score in (scored.intrinsic, scored.extrinsic))
        parts = units.parts[rows]
        members_of = [parts == part for part in np.unique(parts)]
        found = [weighted_spearman(x[part], y[part], self._weights[:, part]) for part in members_of]
        mean: np.ndarray = np.mean(found, axis=0)
        return mean


def _validity(
    targets: Table, units: Units, stratum: Stratum, scored: Scored, contents: list[str | None]
) -> float:
    """Whether the intrinsic score finds what targets are known to carry, over all targets.

    Spearman's rho with their own ratings, or the AUC of the group's own targets against all others.
    """
    x = scored.intrinsic[:, stratum.content]
    carried = CARRIES[targets.role]
    if carried == "valence" and contents == [None]:
        defined = ~np.isnan(x)
        valence = units.frame["valence"].to_numpy(dtype=float)[defined, None]
        return (
            float(agreement(x[defined, None], valence, units.parts[defined])[0]) if len(valence) else math.nan
        )
    if carried == "group" and contents != [None]:
        own = (units.frame["group"] == stratum.group).to_numpy()
        return auc(x[own], x[~own])
    return math.nan
