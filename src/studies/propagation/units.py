"""Units of analysis, and the strata over which scores are correlated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.stimuli import CARRIES, IMAGE_ROLES, Table
from src.studies.propagation.attributes import VALENCE, extremes

# Scores that differ by rounding alone are tied: what is retrieved may be summed in any order.
DECIMALS = 12


@dataclass(frozen=True)
class Units:
    """Units of analysis: images; or words, whose sentences' scores are averaged; or sentences.

    Attributes:
        frame: one row per unit: `id` (the image's, the word or phrase, or the sentence's id), `name` (the
            image's id, the word or phrase), `group` (None where targets carry a valence), `valence` (NaN
            where they carry a group), `part` (correlations are made within each, and averaged), and the
            `template` of a sentence.
        rows: [units, sentences] rows of the targets' table that are averaged.
    """

    frame: pd.DataFrame
    rows: np.ndarray

    def averaged(self, scores: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Scores of units, rounded; one sentence without a score (NaN) leaves its unit without one.

        Args:
            scores: [targets, ...].
            rows: positions in `scores` of the sentences of each unit; by default `self.rows`.

        Returns:
            [units, ...].
        """
        found: np.ndarray = scores[self.rows if rows is None else rows].mean(axis=1).round(DECIMALS)
        return found

    @cached_property
    def parts(self) -> np.ndarray:
        """[units] number of each unit's part."""
        return np.asarray(pd.factorize(self.frame["part"], sort=True)[0])


def units_of(targets: Table, protocol: ProtocolConfig) -> Units:
    """The units that a table of targets consists of.

    Args:
        targets: the stimuli.
        protocol: what a unit is.
    """
    frame = targets.frame
    name = "id" if targets.role in IMAGE_ROLES else "word"
    columns = {column: frame[column] for column in ("group", VALENCE) if column in frame}
    units = pd.DataFrame({"id": frame["id"], "name": frame[name], "part": "", **columns})
    rows = np.arange(len(frame))[:, None]
    if name == "word" and protocol.unit in ("sentence", "template"):
        units["template"] = frame["template"]
        if protocol.unit == "template":
            units["part"] = frame["template"]
    elif name == "word":
        unit, names = pd.factorize(frame["word"], sort=True)
        rows = np.argsort(unit, kind="stable").reshape(len(names), -1)
        units = units.iloc[rows[:, 0]].reset_index(drop=True).assign(id=names)
    if CARRIES[targets.role] == VALENCE:
        return Units(units.assign(group=None), rows)
    return Units(units.assign(valence=np.nan), rows)


@dataclass(frozen=True)
class Stratum:
    """The units of one analysis.

    Attributes:
        name: of the stratum: a group, `extremes`, or `all`.
        group: of the analysis; None for valence content over valence targets.
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
    targets: Table, units: Units, contents: list[str | None], protocol: ProtocolConfig
) -> Iterator[Stratum]:
    """Which units enter which analysis (docs/methods.md, section 2, "Correlation").

    Args:
        targets: the stimuli.
        units: see `units_of`.
        contents: what the corpus carries: its groups, or [None] for valence.
        protocol: how many extreme units make a stratum, and whether all targets do.
    """
    frame = units.frame
    everything = np.arange(len(frame))
    by_group = CARRIES[targets.role] == "group"
    if contents == [None] and not by_group:
        if protocol.targets == "all":
            yield Stratum("all", None, 0, everything, all_too=False)
            return
        items = frame.drop_duplicates("name")
        low, high = extremes(items, "name", protocol.extremes)
        chosen = set(items["name"].to_numpy()[[*low, *high]])
        yield Stratum("extremes", None, 0, np.flatnonzero(frame["name"].isin(chosen)), all_too=True)
    elif contents == [None]:
        for name in targets.groups:
            rows = np.flatnonzero(frame["group"] == name)
            yield Stratum(name, name, 0, rows, all_too=False)
    else:
        own = by_group and protocol.strata != "all"
        for content, group in enumerate(contents):
            assert group is not None
            rows = np.flatnonzero(frame["group"] == group) if own else everything
            yield Stratum(group, group, content, rows, all_too=own)
