"""Compare the stimuli of jobs, and pair their draws (docs/methods.md, sections 6.2 and 6.11)."""

import hashlib
from typing import Any

import numpy as np
import pandas as pd

from src.report.findings import Findings

UNTREATED = "none"  # value of `debias` of a job without debiasing
INTERVAL = (0.025, 0.975)  # quantiles


def interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Compute the 95% percentile interval of first - second by draw, both [draws]; NaN if lengths differ."""
    differences = first - second if len(first) == len(second) else np.empty(0)
    differences = differences[~np.isnan(differences)]
    if not len(differences):
        return np.nan, np.nan
    low, high = np.quantile(differences, INTERVAL)
    return float(low), float(high)


class StimulusHashes:
    """Hashes of the stimuli of jobs; the tables of a job (a `config`) are read once."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.hashes: dict[str, dict[Any, str]] = {}  # config -> stratum -> hash

    def sets_hash(self, config: Any) -> str:
        """Hash the items of A and B, or the faces of an audit: equal hashes mean equal sets."""
        has_attributes = self.findings.has(config, "attributes")
        return _digest(_hashes(self.findings.read(config, "attributes"))) if has_attributes else ""

    def stimuli_hash(self, config: Any, stratum: Any) -> str:
        """Hash the targets and sets of an analysis: equal hashes mean paired draws."""
        if config not in self.hashes:
            self.hashes[config] = {}
            if self.findings.has(config, "targets"):
                sets = self.sets_hash(config)
                targets = self.findings.read(config, "targets")
                columns = [name for name in ("id", "template") if name in targets]
                hashes = _hashes(targets[columns])
                for name, positions in targets.groupby("stratum", sort=False).indices.items():
                    self.hashes[config][name] = sets + _digest(hashes[positions])
        return self.hashes[config].get(stratum, "")


def _hashes(frame: pd.DataFrame) -> np.ndarray:
    return pd.util.hash_pandas_object(frame.astype("string"), index=False).to_numpy()


def _digest(hashes: np.ndarray) -> str:
    # Sorting makes the hash independent of the order of rows.
    return hashlib.sha256(np.sort(hashes).tobytes()).hexdigest()
