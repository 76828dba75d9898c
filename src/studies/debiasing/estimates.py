"""Estimate the changes by debiasing, per measure, method and model."""

from typing import Any

import numpy as np
import pandas as pd

from src.report.findings import list_specifications
from src.studies.debiasing.changes import ACCURACY, CLES, INTRINSIC, OUTCOME, RHO, SPREADS
from src.studies.shared.draws import interval

ALL = "all"
SC_EAT = "SC-EAT"
# Changes of spreads are relative, because experiments differ in their units.
MEASURE_LABELS = {
    INTRINSIC: f"the spread of {SC_EAT} between groups",
    OUTCOME: "the spread between groups of what is retrieved",
    CLES: "|CLES − ½|",
    RHO: "ρ",
    ACCURACY: "zero-shot accuracy",
}
COLUMNS = ["model", "debias", "measure", "value", "ci_low", "ci_high", "before", "after", "chance"]
COLUMNS += ["lowest", "highest", "models", "lower", "experiments", "comparisons", "left", "at_chance"]


def first_specification(changes: pd.DataFrame) -> pd.DataFrame:
    """Return the changes under the first specification: the paper's, or the closest to it."""
    with_results = changes[~changes["lost"]]
    specifications = list_specifications(with_results if len(with_results) else changes)
    if not specifications:
        return changes
    protocol, seed, _ = specifications[0]
    return changes[(changes["protocol"] == protocol) & (changes["seed"] == seed)]


def score_label(changes: pd.DataFrame, analyses: pd.DataFrame) -> str:
    """Return the label of the intrinsic score, from the analyses of the propagation study."""
    labels = analyses.reindex(columns=["config", "intrinsic_label"]).dropna()
    names = labels.loc[labels["config"].isin({*changes["config_before"], *changes["config_after"]})]
    return str(names["intrinsic_label"].iloc[0]) if len(names) else SC_EAT


def estimates(changes: pd.DataFrame) -> pd.DataFrame:
    """Estimate the changes of one specification over all models, and per model where there are several.

    Methods are in the order of the rows, measures in that of `MEASURE_LABELS`. Where each group has its own
    targets, a spread measures how unequally well groups are distinguished, not how differently they are
    treated: the spreads here exclude such experiments.

    Returns:
        A row per model (or `ALL`), method and measure, over comparisons: pairs of jobs of one model and
        experiment. `COLUMNS` are `value` (the mean difference after − before; of a spread the geometric mean
        of after / before, minus 1) with its 95% interval, NaN without draws; means of `before`, `after` and
        `chance` (with debiasing); `lowest` and `highest` of the comparisons; numbers of `models`, of models
        with a `lower` value, of `experiments` and `comparisons`, of comparisons `left` out for lack of a
        value, and of comparisons `at_chance`, with `after` no larger than expected by chance.
    """
    changes = changes[~(changes["own_targets"] & changes["measure"].isin(SPREADS))]
    rows = []
    for method in changes["debias"].unique():
        for measure in MEASURE_LABELS:
            pooled = _comparisons(changes[(changes["debias"] == method) & (changes["measure"] == measure)])
            models = pooled["model"].unique()
            by_model = {ALL: pooled} if len(pooled) else {}
            by_model |= {model: pooled[pooled["model"] == model] for model in models if len(models) > 1}
            for model, comparisons in by_model.items():
                labels = {"model": model, "debias": method, "measure": measure}
                rows.append(labels | _estimate(comparisons, relative=measure in SPREADS))
    return pd.DataFrame(rows, columns=COLUMNS)


def _comparisons(changes: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each pair of jobs; for an audit the means over its attributes.

    An attribute that is the mean of the other attributes does not change their mean.
    """
    rows = []
    for _, pair in changes.groupby(["model", "exp", "config_after"], sort=False):
        numbers = np.ascontiguousarray(pair[["before", "after", "chance_after"]])
        rows.append([*pair[["model", "exp"]].iloc[0], *numbers.mean(axis=0), _stack_draws(pair).mean(axis=0)])
    return pd.DataFrame(rows, columns=["model", "exp", "before", "after", "chance", "draws"])


def _stack_draws(rows: pd.DataFrame) -> np.ndarray:
    """Stack draws, [rows, 2, R]; R is 0 where rows differ in their number of draws."""
    equal = rows["draws"].map(np.shape).nunique() == 1
    return np.stack([*rows["draws"]]) if equal else np.empty((1, 2, 0))


def _estimate(rows: pd.DataFrame, *, relative: bool) -> dict[str, Any]:
    rows = rows.assign(changed=_mean_change(rows[["before", "after"]].to_numpy().T[None], relative))
    known = rows[np.isfinite(rows["changed"])]
    values = known[["before", "after"]].to_numpy()[..., None]
    draws = _mean_change(_stack_draws(known), relative)
    low, high = interval(draws, np.zeros(len(draws)))
    return {
        "value": _mean_change(values, relative)[0] if len(known) else np.nan,
        "ci_low": low,
        "ci_high": high,
        **known[["before", "after", "chance"]].mean(skipna=False),
        "lowest": known["changed"].min(),
        "highest": known["changed"].max(),
        "models": known["model"].nunique(),
        "lower": sum(
            _mean_change(values[known["model"] == name], relative)[0] < 0 for name in known["model"].unique()
        ),
        "experiments": known["exp"].nunique(),
        "comparisons": len(known),
        "left": len(rows) - len(known),
        "at_chance": int((known["after"] <= known["chance"]).sum()),
    }


def _mean_change(values: np.ndarray, relative: bool) -> np.ndarray:
    """Average changes over comparisons with equal weights, [comparisons, 2, R] to [R]."""
    before, after = values[:, 0], values[:, 1]
    if not relative:
        mean_difference: np.ndarray = (after - before).mean(axis=0)
        return mean_difference
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: np.ndarray = np.expm1(np.log(after / before).mean(axis=0))
    # The relative change of a spread of 0 is undefined.
    return np.where(np.isposinf(ratio), np.nan, ratio)
