"""Audits of implicit bias in short, for the terminal."""

from __future__ import annotations

import pandas as pd

from src.report.tables import by_reading

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
    rows: list[dict[str, object]] = []
    for name in dict.fromkeys(audits["exp"]):
        own = audits[audits["exp"] == name]
        value = str(measure(own).iloc[0])
        form = "{:.1f} ({:.1f})" if value == IAT else "{:.3f} ({:.3f})"
        for attribute, part in own.groupby("attribute", sort=False):
            rows += by_reading(f"{name}: {attribute}", part, value, "null_mean", form)
    return pd.DataFrame(rows)
