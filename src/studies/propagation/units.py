"""Build units of analysis and the strata over which scores are correlated."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.stimuli import CARRIES, IMAGE_ROLES, Table
from src.studies.propagation.attributes import VALENCE, find_extremes

# Decimals to which scores are rounded, so that the order of a summation breaks no ties.
DECIMALS = 12


@dataclass(frozen=True)
class Units:
    """Units of analysis: images, words (their sentences' scores are averaged) or sentences.

    `frame` has a row per unit: `id` (of the image or sentence, or the word or phrase), `name` (the id of the
    image, or the word or phrase), `group` (None for targets with a valence), `valence` (NaN for targets with
    a group), `block` (correlations are computed within blocks, then averaged), and a sentence's `template`.
    """

    frame: pd.DataFrame
    rows: np.ndarray  # [units, sentences] rows of the targets' table to average

    def average(self, scores: np.ndarray) -> np.ndarray:
        """Average scores [targets, S] by unit and round them, [units, S]; NaN if any of a unit's is NaN."""
        return np.asarray(scores[self.rows].mean(axis=1).round(DECIMALS))

    @cached_property
    def blocks(self) -> np.ndarray:
        """Return the index of each unit's block, [units]."""
        return np.asarray(pd.factorize(self.frame["block"], sort=True)[0])


def units_of(targets: Table, protocol: ProtocolConfig) -> Units:
    """Build the units of a table of targets."""
    frame = targets.frame
    name = "id" if targets.role in IMAGE_ROLES else "word"
    columns = {column: frame[column] for column in ("group", VALENCE) if column in frame}
    units = pd.DataFrame({"id": frame["id"], "name": frame[name], "block": "", **columns})
    rows = np.arange(len(frame))[:, None]
    if name == "word" and protocol.unit in ("sentence", "template"):
        units["template"] = frame["template"]
        if protocol.unit == "template":
            units["block"] = frame["template"]
    elif name == "word":
        word_indices, names = pd.factorize(frame["word"], sort=True)
        rows = np.argsort(word_indices, kind="stable").reshape(len(names), -1)
        units = units.iloc[rows[:, 0]].reset_index(drop=True).assign(id=names)
    if CARRIES[targets.role] == VALENCE:
        return Units(units.assign(group=None), rows)
    return Units(units.assign(valence=np.nan), rows)


@dataclass(frozen=True)
class Stratum:
    """Units over which the scores of a property are correlated."""

    name: str  # name of a group, `extremes`, or `all`
    group: str | None  # group of the targets or of the property; None: both are valence
    column: int  # column of the scores: index of the property in `Corpus.properties`
    rows: np.ndarray  # positions of the units
    also_over_all: bool = False  # whether rho over all targets is also reported (rho_all)


def strata_of(
    targets: Table, units: Units, properties: list[str | None], protocol: ProtocolConfig
) -> Iterator[Stratum]:
    """Yield the strata of an experiment (docs/methods.md, section 2, "Correlation").

    `properties` are the `Corpus.properties`.
    """
    frame = units.frame
    all_rows = np.arange(len(frame))
    has_groups = CARRIES[targets.role] == "group"
    if properties == [None] and not has_groups:
        if protocol.targets == "all":
            yield Stratum("all", None, 0, all_rows)
            return
        items = frame.drop_duplicates("name")
        low, high = find_extremes(items, "name", protocol.extremes)
        names = set(items["name"].to_numpy()[[*low, *high]])
        yield Stratum("extremes", None, 0, np.flatnonzero(frame["name"].isin(names)), also_over_all=True)
    elif properties == [None]:
        for name in targets.groups:
            yield Stratum(name, name, 0, np.flatnonzero(frame["group"] == name))
    else:
        is_split = has_groups and protocol.strata != "all"
        for column, group in enumerate(properties):
            assert group is not None
            rows = np.flatnonzero(frame["group"] == group) if is_split else all_rows
            yield Stratum(group, group, column, rows, also_over_all=is_split)
