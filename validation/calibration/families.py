"""Measure the false-positive rate of the test of a correlation over models, with several of each family."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from src.metrics import permuted_spearman
from validation.calibration import bounds
from validation.calibration.bounds import generator

# Designs: numbers of models and of families.
DESIGNS = ((18, 6), (24, 8), (24, 12))
# SD of models within a family, in units of that of families.
WITHIN = 0.3


def p_values(design: tuple[int, int], number: int) -> tuple[float, float]:
    """Draw a world of models, and return two p of the correlation of their sizes and rhos.

    A model's size and its rho are unrelated, and both are alike within a family. The first p permutes the
    means of families, a point per family; the second takes each model as a point of its own. `number`, the
    world's number, seeds its draws and its permutations.
    """
    models, families = design
    rng = generator(f"families, {design}", number)
    family = np.arange(models) % families
    family_scores, model_scores = rng.standard_normal((2, families)), rng.standard_normal((2, models))
    sizes, rhos = family_scores[:, family] + WITHIN * model_scores
    x, y = (np.bincount(family, values) / np.bincount(family) for values in (sizes, rhos))
    return permuted_spearman(x, y, seed=number)[1], float(stats.spearmanr(sizes, rhos).pvalue)


def tabulate(measured: Sequence[tuple[tuple[int, int], Sequence[tuple[float, float]]]]) -> pd.DataFrame:
    """Summarise the share of worlds with p at most 5%, by families and as if models were independent."""
    rows = []
    for (models, families), values in measured:
        low, high = bounds.of_false_positive_rate(len(values))
        share, share_singly = (np.array(values) <= bounds.ALPHA).mean(axis=0).tolist()
        row = {"models": models, "families": families, "worlds": len(values), "low": low, "high": high}
        row |= {"share": share, "share_singly": share_singly}
        rows.append(row | {"holds": low <= share <= high})
    return pd.DataFrame(rows)
