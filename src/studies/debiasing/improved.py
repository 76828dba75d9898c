"""How many models came out less biased, beside the counts that Capitani et al. (2024) give: descriptive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from src.studies.debiasing.change import CLES, IAT, Change
from src.studies.debiasing.job_pairs import NONE

PUBLISHED = Path(__file__).with_name("capitani2024_debiased.csv")
# The mean over all attributes, each experiment's counted once: what theirs are set beside.
OVERALL = "all attributes"
COLUMNS = ["debias", "against", "measure", "attribute", "improved", "models", "published", "published_models"]


def improved(found: Sequence[Change]) -> pd.DataFrame:
    """Models whose number is lower with a method than without it, or than with another.

    Args:
        found: changes of one reading.

    Returns:
        `COLUMNS`: `improved` of `models`, those that have the number both ways; published counts where
        there are any. Two methods are set against one another where theirs were.
    """
    numbers = _numbers(found)
    published = pd.read_csv(PUBLISHED).set_index(["debias", "against"])
    rows = []
    methods = [*dict.fromkeys(numbers["debias"])]
    others = [pair for pair in published.index if NONE not in pair and {*pair} <= {*methods}]
    for debias, against in [*((method, NONE) for method in methods), *others]:
        own = numbers[numbers["debias"] == debias]
        if against != NONE:
            other = numbers[numbers["debias"] == against].drop(columns=["debias", "before"])
            keys = ["model", "measure", "attribute"]
            own = own.drop(columns="before").merge(other.rename(columns={"after": "before"}), on=keys)
        own = own.dropna(subset=["before", "after"])
        for (measure, attribute), part in own.groupby(["measure", "attribute"], sort=False):
            row = {"debias": debias, "against": against, "measure": measure, "attribute": attribute}
            row |= {"improved": int((part["after"] < part["before"]).sum()), "models": len(part)}
            if (measure, attribute) == (CLES, OVERALL) and (debias, against) in published.index:
                theirs = published.loc[(debias, against)]
                row |= {"published": theirs["improved"], "published_models": theirs["models"]}
            rows.append(row)
    return pd.DataFrame(rows).reindex(columns=COLUMNS)


def _numbers(found: Sequence[Change]) -> pd.DataFrame:
    """`model, debias, measure, attribute, before, after` of audits, and of all attributes together."""
    keys = ["model", "debias", "measure"]
    columns = ["model", "exp", "debias", "measure", "attribute", "before", "after"]
    rows = [
        (one.pair.job["model"], one.pair.job["exp"], one.pair.debias, one.measure, one.attribute, *one.values)
        for one in found
        if one.measure in (CLES, IAT) and one.attribute
    ]
    every = pd.DataFrame(rows, columns=columns)
    if not rows:
        return every.drop(columns="exp")
    # First within an experiment: the mean of several sets is a row of its own there.
    single = every.groupby([*keys, "exp"], sort=False)[["before", "after"]].agg(_mean)
    overall = single.groupby(keys, sort=False).agg(_mean).reset_index().assign(attribute=OVERALL)
    overall = overall[overall["measure"] == CLES]
    return pd.concat([overall, every.drop(columns="exp")], ignore_index=True)


def _mean(values: pd.Series) -> float:
    return float(np.mean(values.to_numpy(dtype=float)))
