"""The paper's own numbers beside ours (Ghate et al. 2025)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from src.studies.propagation.tables import REPLICATED

# The single rho's that the paper's text gives (docs/methods.md, section 2).
SINGLES = Path(__file__).with_name("ghate2025_single.csv")
# Of a mean that lies on the edge of theirs.
TOLERANCE = 1e-12


def beside(summary: pd.DataFrame) -> pd.Series:
    """Where each mean lies: `inside` or `outside` the paper's mean ± SD, or nothing to compare with.

    A description, not a verdict: their SD is a spread over analyses, not a tolerance.

    Args:
        summary: see `tables.summary`.
    """
    words = pd.Series("", index=summary.index, dtype=object)
    if "published_mean" not in summary:
        return words
    away = (summary["mean"] - summary["published_mean"]).abs()
    known = away.notna()
    words[known & (away <= summary["published_sd"] + TOLERANCE)] = "inside"
    words[known & (away > summary["published_sd"] + TOLERANCE)] = "outside"
    return words


def singles(analyses: pd.DataFrame) -> pd.DataFrame:
    """The paper's single rho's beside ours, where dataset, model, experiment and group match.

    Returns:
        `exp, paper, model, group, published_rho, rho, ci_low, ci_high, config, stratum`; empty where
        nothing matches.
    """
    columns = ["exp", "paper", "model", "group", "rho", "ci_low", "ci_high", "config", "stratum"]
    ours = analyses.loc[analyses["dataset"] == REPLICATED, columns]
    return pd.read_csv(SINGLES).merge(ours, on=["exp", "model", "group"])
