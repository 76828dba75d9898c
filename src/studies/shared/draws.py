"""Identify jobs with equal stimuli, whose draws are paired (docs/methods.md, sections 6.2 and 6.11)."""

import hashlib
from typing import Any

import numpy as np
import pandas as pd

from src.report.findings import Findings

UNTREATED = "none"  # value of `debias` of a job without debiasing
INTERVAL = (0.025, 0.975)  # quantiles that limit a 95% interval


def paired_interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Compute the 95% percentile interval of first - second, paired by draw; both are [draws].

    NaN, NaN if they differ in their number of draws, or if no difference is defined.
    """
    differences = first - second if len(first) == len(second) else np.empty(0)
    differences = differences[~np.isnan(differences)]
    if not len(differences):
        return np.nan, np.nan
    low, high = np.quantile(differences, INTERVAL)
    return float(low), float(high)


class StimulusHashes:
    """Hash the stimuli of jobs, each named by its config hash; the targets of a job are read once."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.stratum_hashes: dict[str, dict[Any, str]] = {}  # config -> stratum -> hash

    def hash_sets(self, config: Any) -> str:
        """Hash the items of the sets A and B, or the faces of an audit; "" for a job without such a table."""
        has_attributes = self.findings.has(config, "attributes")
        return _digest(_hash_rows(self.findings.read(config, "attributes"))) if has_attributes else ""

    def hash_stimuli(self, config: Any, stratum: Any) -> str:
        """Hash the targets and sets of an analysis; equal hashes mean paired draws. "" without targets."""
        if config not in self.stratum_hashes:
            self.stratum_hashes[config] = {}
            if self.findings.has(config, "targets"):
                sets_hash = self.hash_sets(config)
                targets = self.findings.read(config, "targets")
                columns = [name for name in ("id", "template") if name in targets]
                row_hashes = _hash_rows(targets[columns])
                for name, positions in targets.groupby("stratum", sort=False).indices.items():
                    self.stratum_hashes[config][name] = sets_hash + _digest(row_hashes[positions])
        return self.stratum_hashes[config].get(stratum, "")


def _hash_rows(frame: pd.DataFrame) -> np.ndarray:
    return pd.util.hash_pandas_object(frame.astype("string"), index=False).to_numpy()


def _digest(row_hashes: np.ndarray) -> str:
    # Sorting makes the hash independent of the order of rows.
    return hashlib.sha256(np.sort(row_hashes).tobytes()).hexdigest()
