"""Count the models in which debiasing lowers |CLES - 1/2|, next to the counts of Capitani et al. 2024."""

from pathlib import Path

import pandas as pd
from scipy import stats

from src.studies.debiasing.changes import CLES
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
        changes_by_model: columns `model, debias, measure, value`, the change of each model by each method.

    Returns:
        One row per comparison of the paper whose methods are both in the sweep. `lower`: number of the
        `models` in which |CLES - 1/2| is smaller with `debias` than with `against`; `low, high`: 95%
        interval of this share; `published_lower, published_models`: the paper's counts.
    """
    gaps = changes_by_model[changes_by_model["measure"] == CLES]
    values = gaps.pivot(index="model", columns="debias", values="value").assign(**{UNTREATED: 0.0})
    rows = []
    for row in pd.read_csv(PUBLISHED_COUNTS_PATH).to_dict("records"):
        if {row["debias"], row["against"]} <= {*values}:
            difference = (values[row["debias"]] - values[row["against"]]).dropna()
            lower, models = int((difference < 0).sum()), len(difference)
            low, high = compute_share_interval(lower, models)
            rows.append(row | {"lower": lower, "models": models, "low": low, "high": high})
    return pd.DataFrame(rows)
