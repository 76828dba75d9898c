"""Units of analysis, and the strata over which scores are correlated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.experiments.attributes import VALENCE, extremes
from src.stimuli import CARRIES, IMAGE_ROLES, Table

# Scores that differ by rounding alone are tied: what is retrieved may be summed in any order.
DECIMALS = 12


def units_of(targets: Table, *scores: np.ndarray) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Units of analysis: images, or words, whose sentences' scores are averaged.

    One sentence without a score (NaN) leaves its word without one.

    Args:
        targets: the stimuli.
        scores: [N, S] each, in the order of the stimuli.

    Returns:
        One row per unit: `name` (the image's id, or the word), `group` (None where targets carry a
        valence), `valence` where there is one; and the units' scores, [units, S] each.
    """
    frame = targets.frame
    columns = {"group", VALENCE} & set(frame.columns)
    if targets.role in IMAGE_ROLES:
        units = frame.assign(name=frame["id"])
    else:
        units = frame.groupby("word", sort=True).first().reset_index(names="name")
        position = pd.Index(units["name"]).get_indexer(pd.Index(frame["word"]))
        order = np.argsort(position, kind="stable")
        scores = tuple(score[order].reshape(len(units), -1, score.shape[1]).mean(axis=1) for score in scores)
    units = units[["name", *sorted(columns)]]
    if CARRIES[targets.role] == VALENCE:
        units = units.assign(group=None)
    return units, [score.round(DECIMALS) for score in scores]


@dataclass(frozen=True)
class Stratum:
    """The units of one analysis.

    Attributes:
        name: of the stratum: a group, or `extremes`.
        group: of the analysis; None for valence content over extremes.
        content: column of the scores.
        rows: positions of the units.
        all_too: whether the paper can be read as taking all targets instead.
    """

    name: str
    group: str | None
    content: int
    rows: np.ndarray
    all_too: bool


def strata(
    targets: Table, units: pd.DataFrame, contents: list[str | None], protocol: ProtocolConfig
) -> Iterator[Stratum]:
    """Which units enter which analysis (METHODS §2, "Correlation").

    Args:
        targets: the stimuli.
        units: see `units_of`.
        contents: what the corpus carries: its groups, or [None] for valence.
        protocol: how many extreme units make a stratum.
    """
    everything = np.arange(len(units))
    by_group = CARRIES[targets.role] == "group"
    if contents == [None] and not by_group:
        rows = np.sort(np.concatenate(extremes(units, "name", protocol.extremes)))
        yield Stratum("extremes", None, 0, rows, all_too=True)
    elif contents == [None]:
        for name in targets.groups:
            rows = np.flatnonzero(units["group"] == name)
            yield Stratum(name, name, 0, rows, all_too=False)
    else:
        for content, group in enumerate(contents):
            assert group is not None
            rows = np.flatnonzero(units["group"] == group) if by_group else everything
            yield Stratum(group, group, content, rows, all_too=by_group)
