"""Estimate the changes by debiasing, per measure, method and model."""

from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import t_interval
from src.report.findings import list_specifications
from src.studies.debiasing.changes import ACCURACY, CLES, INTRINSIC, OUTCOME, RHO, SPREADS
from src.studies.debiasing.improved_models import share_interval
from src.studies.shared.draws import interval
from src.studies.shared.spreads import NO_RATIO, ratio_of, verdict
from src.studies.shared.target_jackknife import pool

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
COLUMNS = ["model", "debias", "measure", "value", "ci_low", "ci_high", "equivalent", "verdict", "before"]
COLUMNS += ["after", "chance", "lowest", "highest", "models", "lower", "clearly_lower", "experiments"]
COLUMNS += ["comparisons", "left", "at_chance"]
COLUMNS += ["lower_from", "lower_to", "clearly_lower_from", "clearly_lower_to"]


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

    Methods are in the order of the rows, measures in that of `MEASURE_LABELS`; spreads are those of
    `without_distinguishability`.

    Returns:
        A row per model (or `ALL`), method and measure, over comparisons: pairs of jobs of one model and
        experiment. `COLUMNS` are `value` (the mean difference after − before; of a spread the mean ratio,
        minus 1) with its 95% interval, NaN where a comparison has none; `equivalent` and `verdict` of the
        mean ratio; means of `before`, `after` and `chance` (with debiasing); `lowest` and `highest` of the
        comparisons; numbers of `models`, of models with a value below 0 (`lower`) or a whole interval below 0
        (`clearly_lower`), of `experiments` and `comparisons`, of comparisons `left` out for lack of a value,
        and of comparisons `at_chance`, with `after` no larger than expected by chance. `lower_from`,
        `lower_to`: interval of the share of `lower` among models, `clearly_lower_from`, `clearly_lower_to`
        that of `clearly_lower`; both in rows of `ALL` only.
    """
    changes = without_distinguishability(changes)
    rows = []
    for method in changes["debias"].unique():
        for measure in MEASURE_LABELS:
            pooled = _comparisons(changes[(changes["debias"] == method) & (changes["measure"] == measure)])
            models = [rows for _, rows in pooled.groupby("model", sort=False)]
            by_model = [_estimate(comparisons, measure) for comparisons in models]
            labels = {"debias": method, "measure": measure}
            if len(pooled):
                sums = {name: sum(each[name] for each in by_model) for name in ("lower", "clearly_lower")}
                overall = _estimate(pooled, measure) | sums
                for name, count in sums.items():
                    bounds = share_interval(count, overall["models"])
                    overall |= zip((f"{name}_from", f"{name}_to"), bounds, strict=True)
                rows.append({"model": ALL, **labels, **overall})
            if len(models) > 1:
                names = pooled["model"].unique()
                rows += [{"model": x, **labels, **each} for x, each in zip(names, by_model, strict=True)]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"equivalent": "boolean"})


def by_model(estimated: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `estimates` of single models, also those of a sweep with one model."""
    is_single = (estimated["model"] != ALL) | (estimated["models"] == 1)
    return estimated[is_single & (estimated["comparisons"] > 0)]


def without_distinguishability(changes: pd.DataFrame) -> pd.DataFrame:
    """Drop the spreads of experiments in which each group has targets of its own.

    Those measure how unequally well groups are distinguished, not how differently they are treated.
    """
    return changes[~(changes["own_targets"] & changes["measure"].isin(SPREADS))]


def _comparisons(changes: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each pair of jobs; for an audit the means over its attributes.

    An attribute that is the mean of the other attributes does not change their mean. `changed` is the
    difference after − before, of a spread the ratio less 1.
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
    """Stack draws, [rows, 2, R]; R is 0 where rows differ in their number of draws."""
    equal = rows["draws"].map(np.shape).nunique() == 1
    return np.stack([*rows["draws"]]) if equal else np.empty((1, 2, 0))


def _estimate(rows: pd.DataFrame, measure: str) -> dict[str, Any]:
    known = rows[np.isfinite(rows["changed"])]
    value = known["changed"].mean()
    low, high, is_equivalent, name = _uncertainty(known, measure)
    return {
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "equivalent": is_equivalent,
        "verdict": name,
        **known[["before", "after", "chance"]].mean(skipna=False),
        "lowest": known["changed"].min(),
        "highest": known["changed"].max(),
        "models": known["model"].nunique(),
        "lower": int(value < 0),
        "clearly_lower": int(high < 0),
        "experiments": known["exp"].nunique(),
        "comparisons": len(known),
        "left": len(rows) - len(known),
        "at_chance": int((known["after"] <= known["chance"]).sum()),
    }


def _uncertainty(known: pd.DataFrame, measure: str) -> tuple[float, float, bool | None, str]:
    """Return the interval of the mean change and, of a spread, whether it is equivalent, and the verdict.

    A spread's squares and cross products are divided by its squared spread before, and averaged: the ratio
    of these means is the mean ratio.
    """
    if measure in SPREADS:
        ratio = ratio_of(*pool([*known["estimate"]])) if len(known) else NO_RATIO
        return ratio.low - 1, ratio.high - 1, ratio.is_equivalent, verdict(ratio)
    if len(known) and known["estimate"].notna().all():
        values, covariance, df = pool([*known["estimate"]])
        return *t_interval(float(values[0]), float(covariance[0, 0]), df), None, ""
    means = _stack_draws(known).mean(axis=0)
    return *interval(means[1], means[0]), None, ""
