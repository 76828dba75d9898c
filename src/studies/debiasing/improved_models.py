"""Count the models in which debiasing lowers |CLES - 1/2|, next to the counts of Capitani et al. 2024."""

from pathlib import Path

import pandas as pd
from scipy import stats

from src.studies.debiasing.changes import CLES_GAP
from src.studies.shared.draws import UNTREATED

# Table of the paper's counts: number of models in which |CLES - 1/2| is smaller with `debias` than with
# `against`, and total number of models (docs/methods.md, section 3).
PUBLISHED_COUNTS_PATH = Path(__file__).with_name("capitani2024_improved.csv")


def compute_share_interval(count: int, total: int) -> tuple[float, float]:
    """Compute Wilson's 95% interval of a share of models; NaN without models.

    Models count as independent draws from a population of models.

    >>> low, high = compute_share_interval(47, 90)
    >>> round(low, 3), round(high, 3)
    (0.42, 0.622)
    """
    if not total:
        return float("nan"), float("nan")
    interval = stats.binomtest(count, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def count_improved(changes_by_model: pd.DataFrame) -> pd.DataFrame:
    """Count the models in which a method lowers |CLES - 1/2|, for each comparison of the paper.

    Args:
        changes_by_model: columns `model, debias, measure, value`: change of a measure of a model by a method.

    Returns:
        One row per comparison of the paper whose methods are both in the sweep. `models`: number of models
        with both methods; `lower`: number of these in which |CLES - 1/2| is smaller with `debias` than with
        `against`; `low, high`: 95% interval of the share lower / models; `published_lower,
        published_models`: the paper's counts.
    """
    gap_changes = changes_by_model[changes_by_model["measure"] == CLES_GAP]
    change_by_method = gap_changes.pivot(index="model", columns="debias", values="value")
    # Without debiasing nothing changes, so differences of changes are differences of gaps.
    change_by_method = change_by_method.assign(**{UNTREATED: 0.0})
    rows = []
    for row in pd.read_csv(PUBLISHED_COUNTS_PATH).to_dict("records"):
        if {row["debias"], row["against"]} <= {*change_by_method}:
            differences = (change_by_method[row["debias"]] - change_by_method[row["against"]]).dropna()
            lower, models = int((differences < 0).sum()), len(differences)
            low, high = compute_share_interval(lower, models)
            rows.append(row | {"lower": lower, "models": models, "low": low, "high": high})
    return pd.DataFrame(rows)
