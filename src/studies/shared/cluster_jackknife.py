"""Leave out clusters of stimuli in a jackknife (docs/methods.md, sections 6.1 and 6.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import jackknife
from src.stimuli import clusters


def list_cluster_columns(units: pd.DataFrame) -> list[str]:
    """List the columns of a job's table that name the clusters of units.

    These are a single column, or ways of clustering that cross: the lemmas of a label's words, or the two
    parents of a morph.

    >>> list_cluster_columns(pd.DataFrame(columns=["id", "race_lemma", "gender_lemma", "age_lemma"]))
    ['race_lemma', 'gender_lemma', 'age_lemma']
    """
    lemmas = [str(name) for name in units if str(name).endswith(clusters.LEMMA)]
    return [name for name in (clusters.CLUSTER, *lemmas, *clusters.PARENTS) if name in units]


def is_by_template(analysis: Mapping[Any, Any]) -> bool:
    """Return whether the rho of an analysis is a mean over templates, and so has no p of its own.

    The name of its protocol does not tell: a user's YAML with `unit: template` may have any name.

    >>> is_by_template({"rho": 0.3, "p": float("nan")}), is_by_template({"rho": 0.3, "p": 0.02})
    (True, False)
    """
    return bool(np.isfinite(analysis["rho"]) and np.isnan(analysis["p"]))


def build_subsamples(units: pd.DataFrame, groups: Sequence[np.ndarray] = ()) -> jackknife.Subsamples:
    """Build the jackknife's subsamples of units: each lacks a cluster, or several if there are many.

    Args:
        units: one row per unit, with the columns of `list_cluster_columns`; others are ignored.
        groups: mask [n] of each group that the statistic compares. The degrees of freedom are those of the
            group with the fewest clusters; `reason` is that of the first group with too few clusters.
    """
    if groups:
        by_group = [build_subsamples(units[members]) for members in groups]
        reason = next((subsamples.reason for subsamples in by_group if subsamples.reason), "")
        df = min(subsamples.df for subsamples in by_group)
        return replace(build_subsamples(units), df=df, reason=reason)
    names = [units[column].to_numpy(dtype=str) for column in list_cluster_columns(units)]
    if set(clusters.PARENTS) <= {*units}:
        return jackknife.leave_out_parents(*names)
    return jackknife.leave_out_crossed(*names) if len(names) > 1 else jackknife.leave_out_clusters(*names)
