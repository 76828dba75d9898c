"""Count the models in which debiasing lowers |CLES - 1/2|, next to the counts of Capitani et al. 2024."""

from pathlib import Path
from typing import Any

import pandas as pd
from scipy import stats

from src.studies.debiasing.changes import CLES
from src.studies.shared.draws import UNTREATED

# Models in which the paper's methods lowered CLES, of those that it measured (docs/methods.md, section 3).
PUBLISHED = Path(__file__).with_name("capitani2024_improved.csv")


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Compute Wilson's 95% interval of a share of models; NaN without models.

    Nothing is resampled: models count as independent draws from a population of models.

    >>> low, high = share_interval(47, 90)
    >>> round(low, 3), round(high, 3)
    (0.42, 0.622)
    """
    if not total:
        return float("nan"), float("nan")
    interval = stats.binomtest(count, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def published_counts(changes_by_model: pd.DataFrame) -> pd.DataFrame:
    """Count the models of a sweep as the paper counts its models.

    Args:
        changes_by_model: columns `model, debias, measure, value`, the change of each model by each method.

    Returns:
        A row per comparison of the paper with models here, `debias` with `against`: `lower` of `models` have
        the smaller |CLES - 1/2| with `debias`, with the interval of their share (`low`, `high`); the paper's
        `published_lower` of `published_models`, with `published_low`, `published_high`.
    """
    gaps = changes_by_model[changes_by_model["measure"] == CLES]
    values = gaps.pivot(index="model", columns="debias", values="value").assign(**{UNTREATED: 0.0})
    rows = []
    for row in pd.read_csv(PUBLISHED).to_dict("records"):
        if {row["debias"], row["against"]} <= {*values}:
            difference = (values[row["debias"]] - values[row["against"]]).dropna()
            rows.append(row | _counted(int((difference < 0).sum()), len(difference)))
    return pd.DataFrame(rows)


def _counted(lower: int, models: int) -> dict[str, Any]:
    low, high = share_interval(lower, models)
    return {"lower": lower, "models": models, "low": low, "high": high}
