"""Average outcomes and declared predictors of models over families."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from src.encoders.catalogue import UNKNOWN, UNTRAINED
from src.report.findings import Findings, first_specification
from src.studies.shared.model_families import families_of

# Outcome -> label.
OUTCOMES = {"level": "mean |level|", "rho": "mean ρ", "d": "mean |d|"}
# Columns that identify an outcome: `order` is that of an association test, empty for propagation.
KEYS = ["outcome", "exp", "order"]
# Columns of `Findings.models` -> label; numbers, and categories.
NUMBERS = {
    "pairs_seen": "pairs seen",
    "parameters_millions": "parameters",
    "gflops_image": "GFLOPs",
    "zero_shot": "zero-shot accuracy",
}
CATEGORIES = {"pretraining": "training data", "filter": "filter"}
LABELS = {**NUMBERS, **CATEGORIES}
LOGARITHMIC = ("pairs_seen", "parameters_millions", "gflops_image")
COLUMNS = [*KEYS, "family", "models", "value", *LABELS]


def build_family_table(findings: Findings) -> pd.DataFrame:
    """Average each outcome and the predictors over the models of a family (columns: `COLUMNS`).

    Analyses are those of each study's first specification. Numbers of `LOGARITHMIC` are log10. Predictors are
    NaN where unknown; so are categories in which a family's models differ. Untrained models are left out.
    """
    outcomes = average_over_analyses(findings).dropna(subset=["value"])
    rows = outcomes.merge(read_facts(findings), on="model", how="left")
    rows = rows[rows["pretraining"] != UNTRAINED]
    rows["family"] = families_of(findings, rows["model"])
    means = {name: (name, "mean") for name in ("value", *NUMBERS)}
    common = {name: (name, _find_common) for name in CATEGORIES}
    grouped = rows.groupby([*KEYS, "family"], sort=False)
    table = grouped.agg(models=("model", "size"), **means, **common).reset_index()
    return table.reindex(columns=COLUMNS)


def average_over_analyses(findings: Findings) -> pd.DataFrame:
    """Average each outcome over the analyses of each model: `KEYS`, `model`, `value`."""
    analyses, tests = (first_specification(findings.of(study)) for study in ("propagation", "eat"))
    frames = []
    if len(analyses):
        scores = {"level": analyses["level"].abs(), "rho": analyses["rho"]}
        frames = [analyses.assign(outcome=name, order="", value=scores[name]) for name in scores]
    if len(tests):
        frames.append(tests.assign(outcome="d", value=tests["d"].abs()))
    if not frames:
        return pd.DataFrame(columns=[*KEYS, "model", "value"])
    rows = pd.concat([frame[[*KEYS, "model", "value"]] for frame in frames])
    return rows.groupby([*KEYS, "model"], sort=False)["value"].mean().reset_index()


def read_facts(findings: Findings) -> pd.DataFrame:
    """Read the predictors of each model: `model`, and `LABELS`, NaN where unknown."""
    facts = findings.models.reindex(columns=["model", *LABELS])
    for name in NUMBERS:
        numbers = pd.to_numeric(facts[name], errors="coerce").astype(float)
        facts[name] = np.log10(numbers.where(numbers > 0)) if name in LOGARITHMIC else numbers
    for name in CATEGORIES:
        facts[name] = facts[name].astype(object).where(~facts[name].isin([UNKNOWN, ""]), np.nan)
    return facts


def name_outcome(row: Mapping[Any, Any] | pd.Series) -> str:
    """Name the experiment of an outcome, with the order of association tests.

    >>> name_outcome({"exp": "eat_ieat", "order": "image_text"})
    'eat_ieat, image_text'
    """
    return f"{row['exp']}, {row['order']}" if row["order"] else str(row["exp"])


def _find_common(values: pd.Series) -> object:
    """Return the known value that all models of a family have; NaN if they differ or none is known."""
    known = values.dropna().unique()
    return known[0] if len(known) == 1 else np.nan
