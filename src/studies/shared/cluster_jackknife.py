"""Leave out clusters of stimuli in a jackknife (docs/methods.md, sections 6.1 and 6.2)."""

from collections.abc import Sequence
from dataclasses import replace

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


def is_by_template(protocol: str) -> bool:
    """Return whether a protocol, given its name in the results, averages rho over templates.

    >>> [is_by_template(name) for name in ("unit_template", "paper+k=9+template", "paper+k=9")]
    [True, True, False]
    """
    base, *changes = protocol.split("+")
    units = [name for name in changes if name in ("item", "sentence", "template")]
    return units[-1] == "template" if units else base == "unit_template"


def build_subsamples(units: pd.DataFrame, groups: Sequence[np.ndarray] = ()) -> jackknife.Subsamples:
    """Build the jackknife's subsamples of units, each without one part: a cluster, or several of many.

    Args:
        units: one row per unit, with the columns of `list_cluster_columns`; others are ignored.
        groups: mask [n] of each group that the statistic compares. The degrees of freedom are those of the
            group with the fewest clusters; a group with too few clusters gives the result its `reason`.
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
