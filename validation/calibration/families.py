"""Measure the level of a correlation over models, several of which are of one family."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from src.metrics import permuted_spearman
from validation.calibration import bounds
from validation.calibration.bounds import generator

# Numbers of models and of families.
SIZES = ((18, 6), (24, 8), (24, 12))
# SD of models within a family, in units of that of families.
WITHIN = 0.3


def p_values(size: tuple[int, int], number: int) -> tuple[float, float]:
    """Draw models of families whose size and rho are unrelated; return p over families, and over models."""
    models, families = size
    rng = generator(f"families, {size}", number)
    family = np.arange(models) % families
    scores = rng.standard_normal((2, families))[:, family] + WITHIN * rng.standard_normal((2, models))
    x, y = (np.bincount(family, values) / np.bincount(family) for values in scores)
    return permuted_spearman(x, y, number)[1], float(stats.spearmanr(*scores).pvalue)


def tabulate(measured: Sequence[tuple[tuple[int, int], Sequence[tuple[float, float]]]]) -> pd.DataFrame:
    """Summarise the share of worlds with p at most 5%, of families and of models taken one by one."""
    rows = []
    for (models, families), values in measured:
        low, high = bounds.of_level(len(values))
        share, share_singly = (np.array(values) <= bounds.ALPHA).mean(axis=0).tolist()
        row = {"models": models, "families": families, "worlds": len(values), "low": low, "high": high}
        row |= {"share": share, "share_singly": share_singly}
        rows.append(row | {"holds": low <= share <= high})
    return pd.DataFrame(rows)
