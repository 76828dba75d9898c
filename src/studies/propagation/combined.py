"""Analyses of the jobs of a sweep as one table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from scipy.stats import false_discovery_control

from src.report.findings import Findings, first_reading
from src.report.study import concatenated

# What says how far a rho can be believed (docs/methods.md, section 6); older versions did not ask.
WORTH = (
    *("ci_low", "ci_high", "sd_attributes", "validity", "placebo_mean", "placebo_q95", "p_placebo"),
    *("placebo_n", "rho_placebo_units", "family_q95", "family_p", "property_q05", "property_q95"),
)


PROPAGATION = ("group", "stratum", "n", "n_excluded", "rho", "p", "reason", "rho_all", "p_all", "n_all")


def combine(analyses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the analyses of propagation, each row once.

    Args:
        analyses: analyses.csv of each job.

    Returns:
        Their columns, those of `WORTH` that they lack as NaN, and `q`: p_placebo after Benjamini and
        Hochberg's procedure over all rows that have one.
    """
    found = concatenated([frame.drop(columns="q", errors="ignore") for frame in analyses])
    for name in (*PROPAGATION, *WORTH):
        if name not in found:
            found[name] = pd.array([None] * len(found), "Int64") if name == "placebo_n" else math.nan
    p = found["p_placebo"].astype(float).dropna()
    q = pd.Series(false_discovery_control(p), p.index) if len(p) else p
    return found.assign(q=q.reindex(found.index))


def every(findings: Findings) -> pd.DataFrame:
    """Return the analyses of propagation of a sweep, every reading."""
    return findings.of("propagation")


def shown(findings: Findings) -> pd.DataFrame:
    """Return the analyses of the first reading."""
    return first_reading(every(findings))


def label(rows: pd.DataFrame, score: str, otherwise: str) -> str:
    """Return what a score is called.

    Args:
        rows: analyses of one reading and one kind of corpus.
        score: intrinsic or extrinsic.
        otherwise: name of the paper's score, of which rows say nothing.
    """
    names = rows.get(f"{score}_label", pd.Series(dtype=object)).dropna()
    return str(names.iloc[0]) if len(names) else otherwise


def score_names(rows: pd.DataFrame) -> pd.Series:
    """Return for each analysis the names of its scores that are not the paper's; empty where both are."""
    names = rows.reindex(columns=["intrinsic_label", "extrinsic_label"]).astype(object).fillna("")
    both: pd.Series = names["intrinsic_label"] + ", " + names["extrinsic_label"]
    return both.str.strip(", ")
