"""Draws of jobs, paired draw by draw (docs/methods.md, section 6.5)."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd

from src.report.findings import Findings

# Value of `debias` of a job without debiasing.
UNTREATED = "none"
INTERVAL = (0.025, 0.975)


# Of a placebo's difference that equals the observed one but for rounding.
TOLERANCE = 1e-12


def p_of_difference(observed: float, under: np.ndarray) -> float:
    """(1 + #{|Δ_r| >= |Δ|, or undefined}) / (R + 1); NaN without an observation or draws."""
    if np.isnan(observed) or not len(under):
        return np.nan
    reached = np.isnan(under) | (np.abs(under) >= abs(observed) - TOLERANCE)
    return float((1 + reached.sum()) / (len(under) + 1))


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
