"""Estimate the changes by debiasing, per measure, method and model."""

from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import compute_t_interval
from src.report.findings import list_specifications
from src.studies.debiasing.changes import ACCURACY, CLES_GAP, INTRINSIC, OUTCOME, RHO, SPREADS
from src.studies.debiasing.improved_models import compute_share_interval
from src.studies.shared.draws import paired_interval
from src.studies.shared.spreads import NO_RATIO, classify_ratio, compute_ratio
from src.studies.shared.target_jackknife import average_estimates

ALL = "all"
SC_EAT = "SC-EAT"
# Measure -> label. Changes of spreads are relative, because experiments differ in their units.
MEASURE_LABELS = {
    INTRINSIC: f"the spread of {SC_EAT} between groups",
    OUTCOME: "the spread between groups of what is retrieved",
    CLES_GAP: "|CLES − ½|",
    RHO: "ρ",
    ACCURACY: "zero-shot accuracy",
}
COLUMNS = ["model", "debias", "measure", "value", "ci_low", "ci_high", "equivalent", "verdict", "before"]
COLUMNS += ["after", "chance", "lowest", "highest", "models", "lower", "clearly_lower", "experiments"]
COLUMNS += ["comparisons", "left", "at_chance"]
COLUMNS += ["lower_from", "lower_to", "clearly_lower_from", "clearly_lower_to"]


def select_first_specification(changes: pd.DataFrame) -> pd.DataFrame:
    """Select the changes of the first specification: the paper's, or the one closest to it."""
    with_results = changes[~changes["lacks_results"]]
    specifications = list_specifications(with_results if len(with_results) else changes)
    if not specifications:
        return changes
    protocol, seed, _, perturb = specifications[0]
    is_first = (changes["protocol"] == protocol) & (changes["perturb"] == perturb)
    return changes[is_first & (changes["seed"] == seed)]


def find_score_label(changes: pd.DataFrame, analyses: pd.DataFrame) -> str:
    """Find the label of the intrinsic score in the analyses of the study of propagation."""
    labels = analyses.reindex(columns=["config", "intrinsic_label"]).dropna()
    compared = labels.loc[labels["config"].isin({*changes["config_before"], *changes["config_after"]})]
    return str(compared["intrinsic_label"].iloc[0]) if len(compared) else SC_EAT


def estimate_changes(changes: pd.DataFrame) -> pd.DataFrame:
    """Estimate the mean changes of one specification over all models, and per model if there are several.

    A mean is over comparisons: pairs of jobs of one model and experiment. Spreads that
    `without_distinguishability` drops are left out. Methods are in the order of the rows, measures in the
    order of `MEASURE_LABELS`.

    Returns:
        One row per model (or `ALL`), method and measure, with `COLUMNS`. `value` is the mean difference
        after − before (of a spread, the mean ratio minus 1), with its 95% interval, NaN if a comparison has
        none; `equivalent` and `verdict` refer to the mean ratio; `before`, `after` and `chance` (with
        debiasing) are means; `lowest` and `highest` are extremes over comparisons. Numbers: of `models`, of
        models with a value below 0 (`lower`) and with an interval below 0 (`clearly_lower`), of `experiments`
        and `comparisons`, of comparisons `left` out because they have no value, and of comparisons
        `at_chance`, whose `after` is no larger than expected by chance. In rows of `ALL` also the intervals
        of the shares of models: `lower_from` to `lower_to`, `clearly_lower_from` to `clearly_lower_to`.
    """
    changes = without_distinguishability(changes)
    rows = []
    for method in changes["debias"].unique():
        for measure in MEASURE_LABELS:
            comparisons = _build_comparisons(
                changes[(changes["debias"] == method) & (changes["measure"] == measure)]
            )
            by_model = {
                model: _estimate_mean(model_rows, measure)
                for model, model_rows in comparisons.groupby("model", sort=False)
            }
            labels = {"debias": method, "measure": measure}
            if len(comparisons):
                sums = {
                    name: sum(estimate[name] for estimate in by_model.values())
                    for name in ("lower", "clearly_lower")
                }
                overall = _estimate_mean(comparisons, measure) | sums
                for name, count in sums.items():
                    bounds = compute_share_interval(count, overall["models"])
                    overall |= zip((f"{name}_from", f"{name}_to"), bounds, strict=True)
                rows.append({"model": ALL, **labels, **overall})
            if len(by_model) > 1:
                rows += [{"model": model, **labels, **estimate} for model, estimate in by_model.items()]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"equivalent": "boolean"})


def select_models(estimated: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of `estimate_changes` of single models; a sweep with one model has a row of `ALL`."""
    # Each of several models has a row, even if all but one lack results.
    is_only_row = ~estimated.duplicated(["debias", "measure"], keep=False)
    is_single = (estimated["model"] != ALL) | is_only_row
    return estimated[is_single & (estimated["comparisons"] > 0)]


def without_distinguishability(changes: pd.DataFrame) -> pd.DataFrame:
    """Drop the spreads of experiments in which each group has targets of its own.

    Such a spread measures how unequally well groups are distinguished, not how differently they are treated.
    """
    return changes[~(changes["own_targets"] & changes["measure"].isin(SPREADS))]


def _build_comparisons(changes: pd.DataFrame) -> pd.DataFrame:
    """Build a row per pair of jobs; the numbers of an audit are means over its attributes.

    An attribute that is the mean of the other attributes leaves the mean as it is. `changed` is the
    difference after − before; of a spread, the ratio minus 1.
    """
    rows = []
    for _, pair in changes.groupby(["model", "exp", "config_after"], sort=False):
        first = pair.iloc[0]
        numbers = np.ascontiguousarray(pair[["before", "after", "chance_after"]]).mean(axis=0)
        changed = first["ratio"] - 1 if first["measure"] in SPREADS else numbers[1] - numbers[0]
        draws = _stack_draws(pair).mean(axis=0)
        rows.append([first["model"], first["exp"], *numbers, changed, draws, first["estimate"]])
    columns = ["model", "exp", "before", "after", "chance", "changed", "draws", "estimate"]
    return pd.DataFrame(rows, columns=columns)


def _stack_draws(rows: pd.DataFrame) -> np.ndarray:
    """Stack draws, [rows, 2, R]; empty, with R = 0, if rows differ in their number of draws."""
    have_equal_shapes = rows["draws"].map(np.shape).nunique() == 1
    return np.stack([*rows["draws"]]) if have_equal_shapes else np.empty((1, 2, 0))


def _estimate_mean(rows: pd.DataFrame, measure: str) -> dict[str, Any]:
    defined = rows[np.isfinite(rows["changed"])]
    value = defined["changed"].mean()
    low, high, is_equivalent, verdict = _estimate_uncertainty(defined, measure)
    return {
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "equivalent": is_equivalent,
        "verdict": verdict,
        **defined[["before", "after", "chance"]].mean(skipna=False),
        "lowest": defined["changed"].min(),
        "highest": defined["changed"].max(),
        "models": defined["model"].nunique(),
        "lower": int(value < 0),
        "clearly_lower": int(high < 0),
        "experiments": defined["exp"].nunique(),
        "comparisons": len(defined),
        "left": len(rows) - len(defined),
        "at_chance": int((defined["after"] <= defined["chance"]).sum()),
    }


def _estimate_uncertainty(defined: pd.DataFrame, measure: str) -> tuple[float, float, bool | None, str]:
    """Return the interval of the mean change (low, high); for a spread also its equivalence and verdict.

    The cross products and squared spreads of each comparison are divided by its squared spread before, and
    averaged: the ratio of these means is the mean ratio.
    """
    if measure in SPREADS:
        ratio = compute_ratio(*average_estimates([*defined["estimate"]])) if len(defined) else NO_RATIO
        return ratio.low - 1, ratio.high - 1, ratio.is_equivalent, classify_ratio(ratio)
    if len(defined) and defined["estimate"].notna().all():
        values, covariance, df = average_estimates([*defined["estimate"]])
        return *compute_t_interval(float(values[0]), float(covariance[0, 0]), df), None, ""
    means = _stack_draws(defined).mean(axis=0)
    return *paired_interval(means[1], means[0]), None, ""
