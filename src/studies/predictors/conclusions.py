"""State in sentences what predicts the bias of models."""

from collections.abc import Iterator

import pandas as pd

from src.studies.predictors.associations import SIGNIFICANT, count_small_p, format_p
from src.studies.predictors.family_table import LABELS, OUTCOMES, name_outcome
from src.studies.predictors.regression import ALL

CAVEAT = "Observational, from declared data: models differ in more than what is listed."


def state_conclusions(associations: pd.DataFrame, shares: pd.DataFrame) -> list[str]:
    """Return a sentence on single predictors and one on the regressions; empty if there are too few families.

    Arguments are the results of `measure_associations` and `regress_outcomes`.
    """
    sentences = [*_state_associations(associations), *_state_regressions(shares)]
    return [*sentences[:-1], f"{sentences[-1]} {CAVEAT}"] if sentences else []


def _state_associations(associations: pd.DataFrame) -> Iterator[str]:
    small, count = count_small_p(associations)
    if count:
        families = associations["families"][associations["p"].notna()]
        yield (
            f"Over {_format_range(families)} families of models, {small:,} of {count:,} associations of an "
            f"outcome with a declared predictor have p ≤ .05 (by chance about {SIGNIFICANT * count:.1f})."
        )


def _state_regressions(shares: pd.DataFrame) -> Iterator[str]:
    defined = shares[shares["share"].notna()]
    totals = defined[defined["predictor"] == ALL]
    if totals.empty:
        return
    top = totals.iloc[int(totals["share"].argmax())]
    is_same = (defined[["outcome", "exp", "order"]] == top[["outcome", "exp", "order"]]).all(axis=1)
    predictors = defined[is_same & (defined["predictor"] != ALL)]
    leading = predictors.iloc[int(predictors["share"].argmax())]
    small = int((totals["p"] <= SIGNIFICANT).sum())
    start = (
        "The regression"
        if len(totals) == 1
        else f"R² has p ≤ .05 in {small} of {len(totals)} regressions (by chance about "
        f"{SIGNIFICANT * len(totals):.1f}); the largest"
    )
    yield (
        f"{start}, of {OUTCOMES[top['outcome']]} in {name_outcome(top)}, explains {top['share']:.0%} of the "
        f"variance of {top['families']} families ({_format_null(top)}; {format_p(top['p'])}), above all by "
        f"{LABELS[leading['predictor']]}: {leading['share']:.0%}{_format_interval(leading)} "
        f"({_format_null(leading)})."
    )


def _format_range(counts: pd.Series) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _format_null(row: pd.Series) -> str:
    low, high = row["null_low"], row["null_high"]
    return f"shuffled families: {row['null_mean']:.0%} on average, {low:.0%} to {high:.0%}"


def _format_interval(row: pd.Series) -> str:
    return "" if pd.isna(row["low"]) else f" [{row['low']:.0%}, {row['high']:.0%}]"
