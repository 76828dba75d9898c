"""Compute levels and rhos without each cluster of the targets (docs/methods.md, section 9)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.studies.propagation.level import compute_level_statistics
from src.studies.propagation.uncertainty import ScorePair, compute_mean_rhos
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.jackknife_table import Block, build_jackknife_table

MEASURES = ("level", "measured", "rho")  # statistics of each stratum


def tabulate_jackknife(
    units: Units,
    unit_clusters: pd.DataFrame,
    strata: Sequence[Stratum],
    ratings: np.ndarray | None,
    level_scores: tuple[np.ndarray, np.ndarray],
    unit_scores: ScorePair,
) -> pd.DataFrame:
    """Tabulate `MEASURES` of each stratum; a cluster leaves all strata at once.

    Args:
        units: units of analysis.
        unit_clusters: clusters of each unit.
        strata: strata, one per analysis.
        ratings: [units] ratings of targets with valence; None for targets with groups.
        level_scores: difference of mean cosines and outcome of each unit, each [units, S].
        unit_scores: both scores of each unit.
    """
    frame = units.frame
    names = frame["group"].to_numpy(dtype=object)
    group_masks = {stratum.name: names == stratum.group for stratum in strata}

    def compute(masks: np.ndarray) -> np.ndarray:
        columns = []
        for stratum in strata:
            values = np.column_stack([score[:, stratum.column] for score in level_scores])
            levels = compute_level_statistics(ratings, group_masks[stratum.name], values, masks)[:, :2]
            columns += [*levels.T, _compute_rhos(units, stratum, unit_scores, masks)]
        return np.stack(columns, axis=1)

    ids = {name: frame[name].to_numpy() for name in ("id", "template") if name in frame}
    statistics = [(measure, stratum.name, 0.0) for stratum in strata for measure in MEASURES]
    groups = [] if ratings is not None else [mask for mask in group_masks.values() if mask.any()]
    return build_jackknife_table([Block(unit_clusters.assign(**ids), statistics, compute, groups)])


def _compute_rhos(units: Units, stratum: Stratum, unit_scores: ScorePair, masks: np.ndarray) -> np.ndarray:
    """Compute the rho of a stratum in each subsample, [G]; units without a score are left out."""
    x, y = (score[stratum.rows, stratum.column] for score in (unit_scores.intrinsic, unit_scores.extrinsic))
    defined = ~(np.isnan(x) | np.isnan(y))
    if not defined.any():
        return np.full(len(masks), np.nan)
    rows = stratum.rows[defined]
    return compute_mean_rhos(x[defined], y[defined], masks[:, rows], units.blocks[rows])
