"""Differences of two models, and of two groups, with what they are worth (docs/methods.md, section 6.5)."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from src.report.findings import Findings

INTERVAL = (0.025, 0.975)
# Of a placebo's difference that equals the observed one but for rounding.
TOLERANCE = 1e-12
ABOUT = ["exp", "paper", "stratum", "first", "second", "rho_first", "rho_second", "difference"]
MODELS = [*ABOUT, "ci_low", "ci_high", "p_placebo", "q", "config_first", "config_second", "reason"]
GROUPS = ["exp", "paper", "model", "first", "second", "rho_first", "rho_second", "difference"]
GROUPS += ["ci_low", "ci_high", "config"]


def models(findings: Findings) -> pd.DataFrame:
    """Two models on the same experiment and stratum, of the shown reading.

    The interval is of the paired bootstrap, draw by draw. p is two-sided, of the models' difference on
    the placebo's units against its differences under the same permutations; q is Benjamini-Hochberg's over
    the p of this table.

    Returns:
        `MODELS`; `reason` says why there is neither interval nor p: models that were shown other
        targets, or met other sets A and B, share no draws.
    """
    draws = Draws(findings)
    rows = []
    for (exp, paper, stratum), own in findings.shown.groupby(["exp", "paper", "stratum"], sort=False):
        for one, other in combinations(own.to_dict("records"), 2):
            rows.append(
                {
                    "exp": exp,
                    "paper": paper,
                    "stratum": stratum,
                    "first": one["model"],
                    "second": other["model"],
                    "config_first": one["config"],
                    "config_second": other["config"],
                    "rho_first": one["rho"],
                    "rho_second": other["rho"],
                    "difference": one["rho"] - other["rho"],
                    **_worth(draws, one, other, stratum),
                }
            )
    found = pd.DataFrame(rows, columns=MODELS)
    known = found["p_placebo"].notna()
    if known.any():
        found.loc[known, "q"] = stats.false_discovery_control(found.loc[known, "p_placebo"].astype(float))
    return found


def groups(findings: Findings) -> pd.DataFrame:
    """Two groups within an experiment and model, of the shown reading: given this corpus, this A and B.

    The bootstrap is unpaired: the second group's draws are taken one further, so that weights which
    two groups may share (those of a race word) meet no more.

    Returns:
        `GROUPS`.
    """
    draws = Draws(findings)
    rows = []
    for config, own in findings.shown.dropna(subset=["group"]).groupby("config", sort=False):
        for one, other in combinations(own.to_dict("records"), 2):
            first, second = (draws.of(config, row["stratum"], "bootstrap") for row in (one, other))
            low, high = interval(first, np.roll(second, -1))
            rows.append(
                {
                    **{name: one[name] for name in ("exp", "paper", "model")},
                    "first": one["group"],
                    "second": other["group"],
                    "rho_first": one["rho"],
                    "rho_second": other["rho"],
                    "difference": one["rho"] - other["rho"],
                    "ci_low": low,
                    "ci_high": high,
                    "config": config,
                }
            )
    return pd.DataFrame(rows, columns=GROUPS)


def p_of_difference(observed: float, under: np.ndarray) -> float:
    """(1 + #{|Δ_r| >= |Δ|, or undefined}) / (R + 1); NaN without an observation or draws."""
    if np.isnan(observed) or not len(under):
        return np.nan
    reached = np.isnan(under) | (np.abs(under) >= abs(observed) - TOLERANCE)
    return float((1 + reached.sum()) / (len(under) + 1))


def _worth(
    draws: Draws, one: Mapping[Hashable, Any], other: Mapping[Hashable, Any], stratum: Any
) -> dict[str, Any]:
    first, second = one["config"], other["config"]
    if draws.stimuli(first, stratum) != draws.stimuli(second, stratum):
        return {"reason": "other targets, or other A and B"}
    boots = [draws.of(config, stratum, "bootstrap") for config in (first, second)]
    placebos = [draws.of(config, stratum, "placebo") for config in (first, second)]
    low, high = interval(*boots)
    found: dict[str, Any] = {"ci_low": low, "ci_high": high, "reason": ""}
    if len(placebos[0]) == len(placebos[1]):
        observed = float(one["rho_placebo_units"]) - float(other["rho_placebo_units"])
        found["p_placebo"] = p_of_difference(observed, placebos[0] - placebos[1])
    return found


def interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Percentile interval (95%) of first minus second, draw by draw; NaN where they do not pair up."""
    if len(first) != len(second) or not len(first):
        return np.nan, np.nan
    between = first - second
    between = between[~np.isnan(between)]
    if not len(between):
        return np.nan, np.nan
    low, high = np.quantile(between, INTERVAL)
    return float(low), float(high)


class Draws:
    """Draws of rho, and what they were drawn of; each job's tables are read once."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.drawn: dict[str, dict[Any, np.ndarray]] = {}
        self.shown: dict[str, dict[Any, str]] = {}

    def of(self, config: Any, stratum: Any, kind: str) -> np.ndarray:
        """[draws] of a job's stratum, in their order; none where there are none."""
        if config not in self.drawn:
            self.drawn[config] = {}
            if self.findings.has(config, "draws"):
                found = self.findings.read(config, "draws").sort_values("draw", kind="stable")
                for keys, rows in found.groupby(["stratum", "kind"], sort=False):
                    self.drawn[config][keys] = rows["rho"].to_numpy(dtype=float)
        return self.drawn[config].get((stratum, kind), np.empty(0))

    def sets(self, config: Any) -> str:
        """Which items were A and B, or an audit's faces: equal texts, equal sets."""
        there = self.findings.has(config, "attributes")
        return _hash(self.findings.read(config, "attributes")) if there else ""

    def stimuli(self, config: Any, stratum: Any) -> str:
        """Which targets and sets an analysis saw: equal texts, paired draws."""
        if config not in self.shown:
            self.shown[config] = {}
            if self.findings.has(config, "targets"):
                sets = self.sets(config)
                targets = self.findings.read(config, "targets")
                columns = [name for name in ("id", "template") if name in targets]
                for name, rows in targets.groupby("stratum", sort=False):
                    self.shown[config][name] = sets + _hash(rows[columns])
        return self.shown[config].get(stratum, "")


def _hash(frame: pd.DataFrame) -> str:
    # Whatever the order of rows.
    rows = np.sort(pd.util.hash_pandas_object(frame.astype("string"), index=False).to_numpy())
    return hashlib.sha256(rows.tobytes()).hexdigest()
