"""Estimate the regression of each outcome on the predictors of families, and split R² among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import average_orders, draw_orders, fit_coefficients, interval
from src.metrics.inference import TOLERANCE
from src.metrics.jackknife import (
    Replicates,
    StatisticsFunction,
    compute_t_interval,
    leave_out_clusters,
    replicate,
)
from src.studies.predictors.associations import SEED, keep_shared_categories
from src.studies.predictors.family_table import CATEGORIES, KEYS, LABELS, LOGARITHMIC

# Predictors that enter the regression: what is chosen before training.
REGRESSORS = ("pairs_seen", "parameters_millions", "filter", "pretraining")
MIN_FAMILIES, MIN_RESIDUAL_DF = 8, 3
# For training data to enter in place of the filter: R² of noise is then at most about a third.
MIN_FAMILIES_PER_COEFFICIENT = 3
ALL = "all"  # predictor of rows about R²
SHARE_COLUMNS = [*KEYS, "predictor", "share", "low", "high", "null_mean", "null_low", "null_high", "p"]
SHARE_COLUMNS += ["coefficients", "families", "left_out", "reason"]
COEFFICIENT_COLUMNS = [*KEYS, "predictor", "term", "coefficient", "low", "high", "df", "families", "reason"]
NO_INTERVAL = "no interval: without one of the families, predictors are collinear"


@dataclass(frozen=True)
class Design:
    """Predictors of a regression.

    Attributes:
        families: rows of the family table with all predictors.
        columns: predictors as columns of numbers.
        names: predictor of each column.
        dropped: predictor -> why it does not enter.
        refusal: why there is no regression; empty if there is one.
    """

    families: pd.DataFrame
    columns: pd.DataFrame
    names: Sequence[str]
    dropped: dict[str, str] = field(default_factory=dict)
    refusal: str = ""


def regress_outcomes(families: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Estimate the regression of each outcome on `REGRESSORS`.

    `families` is the result of `build_family_table`.

    Returns:
        Shares (`SHARE_COLUMNS`) and coefficients (`COEFFICIENT_COLUMNS`). Predictors that do not enter, and
        outcomes without a regression, have a row of the shares with the `reason`.
    """
    shares: list[dict[str, Any]] = []
    coefficients: list[dict[str, Any]] = []
    for keys, rows in families.groupby(KEYS, sort=False):
        names = dict(zip(KEYS, keys, strict=True))
        design = build_design(rows)
        counts = {"families": len(design.families), "left_out": len(rows) - len(design.families)}
        if design.refusal:
            shares.append({**names, "predictor": ALL, **counts, "reason": design.refusal})
        else:
            shares += [{**names, **counts, **row} for row in _split(design)]
            coefficients += [
                {**names, "families": len(design.families), **row} for row in _list_coefficients(design)
            ]
        shares += [
            {**names, "predictor": name, **counts, "reason": f"not entered: {reason}"}
            for name, reason in design.dropped.items()
        ]
    numbers = dict.fromkeys(SHARE_COLUMNS[4:11], float)
    return (
        pd.DataFrame(shares, columns=SHARE_COLUMNS).astype(numbers),
        pd.DataFrame(coefficients, columns=COEFFICIENT_COLUMNS),
    )


def build_design(rows: pd.DataFrame) -> Design:
    """Select the predictors of a regression, and the families with all of them; never by the outcome."""
    chosen, dropped = _select_predictors(rows) if len(rows) >= MIN_FAMILIES else ([], {})
    families = keep_complete(rows, chosen)
    blocks = [_encode(families[name]) for name in chosen]
    columns = pd.concat(blocks, axis=1) if blocks else pd.DataFrame(index=families.index)
    names = [name for name, block in zip(chosen, blocks, strict=True) for _ in block]
    return Design(families, columns, names, dropped, _explain_refusal(rows, families, columns, chosen))


def _select_predictors(rows: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """Return the predictors that enter, and why the others do not."""
    dropped: dict[str, str] = {}
    counts = {name: len(keep_complete(rows, [name])) for name in REGRESSORS}
    for name, count in counts.items():
        if rows[name].isna().all():
            dropped[name] = "unknown for all families"
        elif not count:
            dropped[name] = "no two families have the same"
        elif keep_complete(rows, [name])[name].nunique() < 2:
            dropped[name] = f"the same for all {count} families that have it"
    chosen = [name for name in REGRESSORS if name not in dropped]
    if {"filter", "pretraining"} <= {*chosen} and _determines(rows, "pretraining", "filter"):
        with_data = [name for name in chosen if name != "filter"]
        families = keep_complete(rows, with_data)
        count = sum(_count_columns(families[name]) for name in with_data)
        if len(families) >= max(MIN_FAMILIES, MIN_FAMILIES_PER_COEFFICIENT * count):
            name, reason = "filter", "training data determine it and are entered instead"
        else:
            name = "pretraining"
            reason = f"they determine the filter, which is entered instead: with them, {count} coefficients, "
            reason += f"but only {len(families)} families (at least {MIN_FAMILIES_PER_COEFFICIENT} for each)"
        dropped[name] = reason
        chosen.remove(name)
    while chosen:
        families = keep_complete(rows, chosen)
        constant = [name for name in chosen if families[name].nunique() < 2]
        name = min(chosen, key=counts.__getitem__)
        if len(families) < MIN_FAMILIES and counts[name] < len(rows):
            dropped[name] = f"usable in {counts[name]} families; with it, {len(families)} have all predictors"
        elif constant:
            name = constant[-1]
            dropped[name] = f"the same for all {len(families)} families with all predictors"
        else:
            break
        chosen.remove(name)
    return chosen, dropped


def keep_complete(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Keep the families with all predictors that share each category with another such family."""
    complete = rows.dropna(subset=[*names])
    while True:
        count = len(complete)
        for name in CATEGORIES:
            if name in names:
                complete = keep_shared_categories(complete, name)
        if len(complete) == count:
            return complete


def _determines(rows: pd.DataFrame, finer: str, coarser: str) -> bool:
    """Return whether each value of a category occurs with a single value of another."""
    return bool((rows.groupby(finer)[coarser].nunique() <= 1).all())


def _count_columns(values: pd.Series) -> int:
    """Return the number of coefficients of a predictor."""
    return max(values.nunique() - 1, 0) if values.name in CATEGORIES else 1


def _encode(values: pd.Series) -> pd.DataFrame:
    """Encode a predictor as columns: numbers as they are, a category against its most frequent value."""
    if values.name not in CATEGORIES:
        unit = "per tenfold" if values.name in LOGARITHMIC else "per unit"
        return pd.DataFrame({unit: values.astype(float)})
    categories = values.astype(str)
    # Ties are in alphabetical order.
    reference, *others = (
        categories.value_counts().sort_index().sort_values(ascending=False, kind="stable").index
    )
    return pd.DataFrame(
        {f"{name} against {reference}": (categories == name).astype(float) for name in others}
    )


def _explain_refusal(
    rows: pd.DataFrame, families: pd.DataFrame, columns: pd.DataFrame, chosen: Sequence[str]
) -> str:
    residual_df = len(families) - 1 - columns.shape[1]
    labels = ", ".join(LABELS[name] for name in chosen)
    if len(rows) < MIN_FAMILIES:
        return f"{len(rows)} families: at least {MIN_FAMILIES} are needed"
    if not chosen:
        return "no predictor can enter"
    if residual_df < MIN_RESIDUAL_DF:
        return (
            f"{columns.shape[1]} coefficients ({labels}) of {len(families)} families leave "
            f"{max(residual_df, 0)} residual degrees of freedom: at least {MIN_RESIDUAL_DF} are needed"
        )
    if np.isnan(
        fit_coefficients(columns.to_numpy(), families["value"].to_numpy(), _all_units(families))
    ).any():
        return f"predictors are collinear in these {len(families)} families: {labels}"
    if np.ptp(families["value"]) <= TOLERANCE:
        return f"the outcome is the same for all {len(families)} families"
    return ""


def _all_units(families: pd.DataFrame) -> np.ndarray:
    return np.ones((1, len(families)), dtype=bool)


def _split(design: Design) -> Iterator[dict[str, Any]]:
    """Yield a row for R² and one per predictor: the columns from `predictor` on.

    R² has no interval: with few families it is too large, and intervals rarely reach down to its true value.
    """
    predictors = [*dict.fromkeys(design.names)]
    index = np.array([predictors.index(name) for name in design.names])
    x, y = design.columns.to_numpy(), design.families["value"].to_numpy()
    orders = draw_orders(len(y), SEED)
    # The observed order is first.
    null = average_orders(x, index, y[orders].T, _all_units(design.families))[0]
    r2s = null.sum(axis=1)
    p = float((r2s >= r2s[0] - TOLERANCE).mean())
    yield {"predictor": ALL, **_describe_null(r2s), "p": p, "coefficients": len(index), "reason": ""}
    replicates = _leave_out_families(design, lambda masks: average_orders(x, index, y[:, None], masks)[:, 0])
    variances = replicates.variance()
    for number, name in enumerate(predictors):
        low, high = compute_t_interval(null[0, number], float(variances[number]), replicates.df)
        yield {
            "predictor": name,
            **_describe_null(null[:, number]),
            "low": np.clip(low, 0, 1),
            "high": np.clip(high, 0, 1),
            "coefficients": design.names.count(name),
            "reason": NO_INTERVAL if np.isnan(low) else "",
        }


def _describe_null(draws: np.ndarray) -> dict[str, float]:
    """Return the observed share, the first of the draws, and the mean and 95% range of all."""
    low, high = interval(draws)
    return {"share": float(draws[0]), "null_mean": float(draws.mean()), "null_low": low, "null_high": high}


def _leave_out_families(design: Design, compute_statistics: StatisticsFunction) -> Replicates:
    """Compute statistics without each family (without each part, if there are more than 100 families)."""
    subsamples = leave_out_clusters(design.families["family"].to_numpy(str))
    return replicate(subsamples, compute_statistics)


def _list_coefficients(design: Design) -> Iterator[dict[str, Any]]:
    """Yield a row per coefficient: the columns from `predictor` on."""
    x, y = design.columns.to_numpy(), design.families["value"].to_numpy()
    coefficients = fit_coefficients(x, y, _all_units(design.families))[0]
    replicates = _leave_out_families(design, lambda masks: fit_coefficients(x, y, masks))
    variances = replicates.variance()
    for number, (name, term) in enumerate(zip(design.names, design.columns, strict=True)):
        low, high = compute_t_interval(float(coefficients[number]), float(variances[number]), replicates.df)
        yield {
            "predictor": name,
            "term": term,
            "coefficient": float(coefficients[number]),
            "low": low,
            "high": high,
            "df": replicates.df,
            "reason": NO_INTERVAL if np.isnan(low) else "",
        }
