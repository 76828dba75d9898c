"""Leave out clusters of stimuli in a jackknife (docs/methods.md, sections 6.1 and 6.2)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from src.metrics import jackknife
from src.stimuli import clusters

# Columns of a job's tables that name the clusters of units: a single column, or two ways of clustering that
# cross (the lemmas of a label's two words, or the two parents of a morph).
CLUSTER_COLUMNS = (clusters.CLUSTER, *clusters.LEMMAS, *clusters.PARENTS)


def is_by_template(protocol: str) -> bool:
    """Return whether a protocol, given its name in the results, averages rho over templates.

    >>> [is_by_template(name) for name in ("unit_template", "paper+k=9+template", "paper+k=9")]
    [True, True, False]
    """
    base, *changes = protocol.split("+")
    units = [name for name in changes if name in ("item", "sentence", "template")]
    return units[-1] == "template" if units else base == "unit_template"


def build_subsamples(units: pd.DataFrame, groups: Sequence[np.ndarray] = ()) -> jackknife.Subsamples:
    """Build the jackknife's subsamples of units, each without one cluster.

    Args:
        units: one row per unit, with one or two of `CLUSTER_COLUMNS`; other columns are ignored.
        groups: mask [n] of each group that the statistic compares. The degrees of freedom are those of the
            group with the fewest clusters; a group with too few clusters gives the result its `reason`.
    """
    if groups:
        by_group = [build_subsamples(units[members]) for members in groups]
        reason = next((subsamples.reason for subsamples in by_group if subsamples.reason), "")
        df = min(subsamples.df for subsamples in by_group)
        return replace(build_subsamples(units), df=df, reason=reason)
    names = [units[column].to_numpy(dtype=str) for column in CLUSTER_COLUMNS if column in units]
    if set(clusters.PARENTS) <= {*units}:
        return jackknife.leave_out_parents(*names)
    return jackknife.leave_out_crossed(*names) if len(names) > 1 else jackknife.leave_out_clusters(*names)
