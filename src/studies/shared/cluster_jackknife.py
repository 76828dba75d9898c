"""Leave out clusters of stimuli in a jackknife (docs/methods.md, sections 6.1 and 6.2)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from src.metrics import jackknife
from src.stimuli import clusters

# Columns of clusters in the tables of a job: of one way, or of two ways that cross.
WAYS = (clusters.CLUSTER, *clusters.LEMMAS, *clusters.PARENTS)


def is_by_template(protocol: str) -> bool:
    """Return whether rho is the mean over templates, by the name of a protocol.

    >>> [is_by_template(name) for name in ("unit_template", "paper+k=9+template", "paper+k=9")]
    [True, True, False]
    """
    yaml, *changes = protocol.split("+")
    units = [name for name in changes if name in ("item", "sentence", "template")]
    return units[-1] == "template" if units else yaml == "unit_template"


def deletions(ways: pd.DataFrame, groups: Sequence[np.ndarray] = ()) -> jackknife.Deletions:
    """Return the subsamples of units without one cluster each.

    Args:
        ways: clusters of each unit in one or two columns of `WAYS`; further columns are ignored.
        groups: masks [n] of the groups that a statistic compares: degrees of freedom and refusal are those of
            the group with the fewest clusters.
    """
    if groups:
        compared = [deletions(ways[members]) for members in groups]
        reason = next((each.reason for each in compared if each.reason), "")
        return replace(deletions(ways), df=min(each.df for each in compared), reason=reason)
    names = [ways[column].to_numpy(dtype=str) for column in WAYS if column in ways]
    if set(clusters.PARENTS) <= {*ways}:
        return jackknife.leave_out_parents(*names)
    return jackknife.leave_out_crossed(*names) if len(names) > 1 else jackknife.leave_out_clusters(*names)
