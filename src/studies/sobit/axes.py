"""Which groups the faces of a So-B-IT audit fall into, axis by axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.errors import InputError, NotApplicable
from src.stimuli import Table
from src.studies.shared.resampling import PARENTS, weights

# Axis -> the columns of faces that it is made of.
COLUMNS = {"race": ("race",), "gender": ("gender",), "both": ("race", "gender")}


@dataclass(frozen=True)
class Axis:
    """A way to group faces.

    Attributes:
        name: race, gender or both.
        groups: names, sorted.
        cells: [cells, G], which cell lies in which group.
        base: [G], share of each group among all faces.
        sizes: [G], faces of each.
    """

    name: str
    groups: list[str]
    cells: np.ndarray
    base: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Faces:
    """The faces of an audit.

    Attributes:
        frame: their rows of the stimulus table.
        cell: [N], the cell of each: race x gender, or what the axes need of it.
        cells: names of the cells.
        axes: the chosen ones.
    """

    frame: pd.DataFrame
    cell: np.ndarray
    cells: list[str]
    axes: tuple[Axis, ...]

    @property
    def ids(self) -> np.ndarray:
        """Of the faces."""
        return self.frame["id"].to_numpy(dtype=str)

    @property
    def members(self) -> np.ndarray:
        """[cells, all groups of all axes]."""
        return np.concatenate([axis.cells for axis in self.axes], axis=1)

    def weights(self, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each cell its rows, and [draws, rows] how often each face stands in each bootstrap sample."""
        parents = [name for name in PARENTS if name in self.frame.columns]
        named = self.frame[["id", *parents]].rename(columns={"id": "name"})
        for cell in range(len(self.cells)):
            rows = np.flatnonzero(self.cell == cell)
            yield rows, weights(named.iloc[rows], draws, seed)


def faces_of(table: Table, axes: Sequence[str]) -> Faces:
    """The faces of a table, grouped by each axis.

    Args:
        table: the stimuli.
        axes: names, see `COLUMNS`.

    Raises:
        InputError: an axis is none, stands there twice, or some faces lack what it needs.
        NotApplicable: no face says it, or all are of one group.
    """
    _known(axes)
    needed = [name for name in ("race", "gender") if any(name in COLUMNS[axis] for axis in axes)]
    for name in needed:
        _column(table, name)
    frame = table.frame
    crossed = frame[needed[0]].astype(str)
    for name in needed[1:]:
        crossed = crossed + " " + frame[name].astype(str)
    cell, cells = pd.factorize(crossed, sort=True)
    first = [int(np.flatnonzero(cell == number)[0]) for number in range(len(cells))]
    sizes = np.bincount(cell)
    made = []
    for axis in axes:
        columns = frame.iloc[first][list(COLUMNS[axis])].astype(str)
        whose = columns.agg(" ".join, axis=1).tolist()
        groups = sorted(set(whose))
        members = np.array(whose)[:, None] == np.array(groups)[None]
        made.append(Axis(axis, groups, members, sizes @ members / len(frame), sizes @ members))
    return Faces(frame, cell, list(map(str, cells)), tuple(made))


def _known(axes: Sequence[str]) -> None:
    for axis in axes:
        if axis not in COLUMNS:
            raise InputError(f"exp.axes: {axis!r} is no axis. There are {', '.join(COLUMNS)}.")
    if not axes or len({*axes}) < len(axes):
        raise InputError(f"exp.axes={list(axes)}: at least one, and each once, of {', '.join(COLUMNS)}.")


def _column(table: Table, name: str) -> None:
    if name not in table.frame.columns or table.frame[name].isna().all():
        raise NotApplicable(
            f"faces: no column {name}, by which this audit groups them; found "
            f"{', '.join(map(str, table.frame.columns))}. Add it to the faces' table (race and gender beside "
            "group), or choose exp.axes=[race] or exp.axes=[gender] where one of both is there."
        )
    empty = table.frame[name].isna() | (table.frame[name].astype(str).str.strip() == "")
    if empty.any():
        raise InputError(
            f"faces: {int(empty.sum())} of {len(empty)} have no {name}, first "
            f"{table.frame['id'][empty].iloc[0]!r}. Fill it in, or leave them out."
        )
    if table.frame[name].nunique() < 2:
        raise NotApplicable(
            f"faces: all are of one {name}, {table.frame[name].iloc[0]!r}. Nothing can be compared: choose "
            "exp.axes without it, or other faces."
        )
