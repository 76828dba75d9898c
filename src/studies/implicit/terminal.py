"""Audits of implicit bias in short, for the terminal."""

from __future__ import annotations

import pandas as pd

from src.report.tables import across_models, means

IAT, GAP = "iat", "cles_gap"
TITLE = "|CLES − ½| or IAT, mean over pairs of groups (of random partitions)"


def measure(audits: pd.DataFrame) -> pd.Series:
    """What the null of each audit is of: `iat` or `cles_gap`.

    Args:
        audits: rows of analyses.csv of audits.
    """
    # Older versions had no such column: there the experiment's name tells.
    named = audits["exp"].astype(str).str.startswith(IAT).map({True: IAT, False: GAP})
    return audits["measure"].fillna(named) if "measure" in audits else named


def short(audits: pd.DataFrame) -> pd.DataFrame:
    """A row per attribute and reading, a column per model.

    Args:
        audits: rows of analyses.csv of audits: shown is the mean over pairs of groups of `cles_gap`, or of
            `iat` where the null is of it, and in brackets that of random partitions.
    """
    rows = []
    for (exp, attribute), own in audits.groupby(["exp", "attribute"], sort=False):
        value = str(measure(own).iloc[0])
        form = "{:.1f} ({:.1f})" if value == IAT else "{:.3f} ({:.3f})"
        rows.append(means(own, f"{exp}: {attribute}", value, "null_mean", form))
    return across_models(pd.concat(rows), "debias", "protocol", "seed") if rows else pd.DataFrame()
