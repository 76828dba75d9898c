"""Name the families of models, which share architecture and training data (docs/methods.md, section 6.16)."""

import pandas as pd

from src.report.findings import Findings

# Minimum number of families for a correlation over them.
MIN_FAMILIES = 6


def families_of(findings: Findings, models: pd.Series) -> pd.Series:
    """Return the family (architecture and training data) of each model; its name if the family is unknown."""
    known = findings.models.reindex(columns=["model", "family"]).dropna()
    return models.map(dict(known.itertuples(index=False, name=None))).fillna(models)
