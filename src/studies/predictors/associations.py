"""Measure the association of each outcome with each predictor alone, over families of models."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import permuted_eta_squared, permuted_spearman
from src.studies.predictors.family_table import CATEGORIES, KEYS, LABELS
from src.studies.shared.model_families import MIN_FAMILIES

SPEARMAN, ETA_SQUARED = "spearman", "eta_squared"
# Seed of the permutations, where there are too many to enumerate.
SEED = 0
SIGNIFICANT = 0.05
COLUMNS = [*KEYS, "predictor", "statistic", "value", "expected", "p"]
COLUMNS += ["families", "categories", "unknown", "alone", "reason"]


def measure_associations(families: pd.DataFrame) -> pd.DataFrame:
    """Measure the association of each outcome with each predictor (columns: `COLUMNS`).

    `families` is the result of `build_family_table`. A refusal is a row with its `reason`.
    """
    rows = [
        {**dict(zip(KEYS, keys, strict=True)), "predictor": predictor, **_relate(outcome_rows, predictor)}
        for keys, outcome_rows in families.groupby(KEYS, sort=False)
        for predictor in LABELS
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype(dict.fromkeys(("value", "expected", "p"), float))


def _relate(rows: pd.DataFrame, predictor: str) -> dict[str, Any]:
    """Return the association of an outcome with a predictor: the columns from `statistic` on."""
    known = rows.dropna(subset=[predictor])
    is_category = predictor in CATEGORIES
    shared = keep_shared_categories(known, predictor) if is_category else known
    result: dict[str, Any] = {"statistic": ETA_SQUARED if is_category else SPEARMAN}
    result |= {"families": len(shared), "unknown": len(rows) - len(known), "alone": len(known) - len(shared)}
    if is_category:
        result["categories"] = shared[predictor].nunique()
    reason = _explain_refusal(rows, known, shared, predictor)
    if reason:
        return result | {"reason": reason}
    if is_category:
        value, p = permuted_eta_squared(shared["value"], shared[predictor].astype(str), SEED)
        expected = (result["categories"] - 1) / (len(shared) - 1)
    else:
        value, p = permuted_spearman(shared[predictor], shared["value"], SEED)
        expected = 0.0
    return result | {"value": value, "expected": expected, "p": p, "reason": ""}


def keep_shared_categories(rows: pd.DataFrame, category: str) -> pd.DataFrame:
    """Keep the families that share their category with another family."""
    return rows[rows.groupby(category)[category].transform("size") > 1] if len(rows) else rows


def _explain_refusal(rows: pd.DataFrame, known: pd.DataFrame, shared: pd.DataFrame, predictor: str) -> str:
    if known.empty:
        return "unknown for all families"
    if len(shared) < MIN_FAMILIES:
        kind = "share their category with another" if predictor in CATEGORIES else "have a known value"
        return f"{len(shared)} of {len(rows)} families {kind}: at least {MIN_FAMILIES} are needed"
    if shared[predictor].nunique() < 2:
        return f"the same for all {len(shared)} families"
    if np.ptp(shared["value"]) == 0:
        return f"the outcome is the same for all {len(shared)} families"
    return ""


def count_small_p(associations: pd.DataFrame) -> tuple[int, int]:
    """Return how many p are at most .05, and how many there are."""
    p = associations["p"].dropna()
    return int((p <= SIGNIFICANT).sum()), len(p)


def format_p(p: float) -> str:
    """Format a p-value for a sentence.

    >>> format_p(0.0001), format_p(0.0312)
    ('p < 0.001', 'p = 0.031')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def list_refusals(associations: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield each predictor and reason of refusals, with the number of outcomes that it concerns."""
    refused = associations[associations["reason"] != ""]
    for (predictor, reason), rows in refused.groupby(["predictor", "reason"], sort=False):
        yield {"predictor": LABELS[str(predictor)], "reason": reason, "outcomes": len(rows)}
