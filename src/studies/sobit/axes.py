"""Group the faces of a So-B-IT audit by race, gender or both, and draw permutations of these labels.

See docs/methods.md, sections 6.1 and 6.8.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import gammaln

from src.errors import InputError, NotApplicable
from src.stimuli import Table, clusters
from src.studies.shared.exchange_units import MIN_MOVABLE, MIN_PLACEMENTS, blocks_of
from src.studies.shared.resampling import generator, weights

# Axis -> the columns of the face table that define it.
COLUMNS = {"race": ("race",), "gender": ("gender",), "both": ("race", "gender")}
# A group has no p if fewer people than this are in it, or outside of it.
MIN_PEOPLE = 5
# Random stream of the permutations; bootstrap draws use stream 0.
PERMUTATION_STREAM = 1


@dataclass(frozen=True)
class Axis:
    """A way to group faces."""

    name: str  # race, gender or both
    groups: list[str]  # group names, sorted
    members: np.ndarray  # [cells, G], true if a cell belongs to a group
    base: np.ndarray  # [G], share of each group among all faces
    sizes: np.ndarray  # [G], number of faces in each group
    columns: slice  # columns of its groups in `Faces.members`, which has those of all axes


@dataclass(frozen=True)
class Faces:
    """The faces of an audit."""

    frame: pd.DataFrame  # rows of the faces in the stimulus table
    cell: np.ndarray  # [N], index of each face's cell: race x gender, or only the column that the axes need
    cells: list[str]  # names of the cells
    axes: tuple[Axis, ...]  # chosen axes
    ways: pd.DataFrame  # [N] cluster of each face, or its two parents, of `clusters.assign_clusters`

    @property
    def ids(self) -> np.ndarray:
        """Return the ids of the faces."""
        return self.frame["id"].to_numpy(dtype=str)

    @property
    def members(self) -> np.ndarray:
        """Return the group membership of each cell, [cells, all groups of all axes]."""
        return np.concatenate([axis.members for axis in self.axes], axis=1)

    @cached_property
    def people(self) -> np.ndarray:
        """Return the index of the person in each face, [N]; faces linked by morphs count as one person."""
        numbers: np.ndarray = pd.factorize(clusters.merge_linked(self.ways), sort=True)[0]
        return numbers

    def weights(self, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of each cell and their bootstrap weights.

        A weight counts how often a face occurs in a bootstrap sample: [draws, rows]. Each sample draws people
        with all their faces in the cell; for morphs it draws parents.
        """
        units = self.ways.assign(name=self.ways.get(clusters.CLUSTER, self.frame["id"]))
        for cell in range(len(self.cells)):
            rows = np.flatnonzero(self.cell == cell)
            yield rows, weights(units.iloc[rows], draws, seed)


def group_faces(table: Table, axes: Sequence[str]) -> Faces:
    """Group the faces of a table by each axis of `COLUMNS`.

    Raises:
        InputError: an axis is unknown or repeated, or some faces lack a value that it needs.
        NotApplicable: the table has no such values, or all faces belong to one group.
    """
    for axis in axes:
        if axis not in COLUMNS:
            raise InputError(f"exp.axes: unknown axis {axis!r}. Use some of {', '.join(COLUMNS)}.")
    if not axes or len({*axes}) < len(axes):
        raise InputError(f"exp.axes={list(axes)}: expected one or more of {', '.join(COLUMNS)}, each once.")
    needed_columns = [name for name in ("race", "gender") if any(name in COLUMNS[axis] for axis in axes)]
    for name in needed_columns:
        _check_column(table, name)
    frame = table.frame
    cell_labels = frame[needed_columns[0]].astype(str)
    for name in needed_columns[1:]:
        cell_labels = cell_labels + " " + frame[name].astype(str)
    cell, cells = pd.factorize(cell_labels, sort=True)
    first_rows = [int(np.flatnonzero(cell == number)[0]) for number in range(len(cells))]
    sizes = np.bincount(cell)
    built_axes: list[Axis] = []
    for axis in axes:
        columns = frame.iloc[first_rows][list(COLUMNS[axis])].astype(str)
        labels = columns.agg(" ".join, axis=1).tolist()
        groups = sorted(set(labels))
        members = np.array(labels)[:, None] == np.array(groups)[None]
        start = built_axes[-1].columns.stop if built_axes else 0
        place = slice(start, start + len(groups))
        built_axes.append(Axis(axis, groups, members, sizes @ members / len(frame), sizes @ members, place))
    return Faces(frame, cell, list(map(str, cells)), tuple(built_axes), clusters.assign_clusters(table))


def _check_column(table: Table, name: str) -> None:
    if name not in table.frame.columns or table.frame[name].isna().all():
        raise NotApplicable(
            f"faces: no column {name}, by which this audit groups faces; found "
            f"{', '.join(map(str, table.frame.columns))}. Add race and gender to the table of faces, or "
            "choose exp.axes=[race] or exp.axes=[gender] if it has one of them."
        )
    empty = table.frame[name].isna() | (table.frame[name].astype(str).str.strip() == "")
    if empty.any():
        raise InputError(
            f"faces: {int(empty.sum())} of {len(empty)} have no {name}, first "
            f"{table.frame['id'][empty].iloc[0]!r}. Fill it in, or remove these faces."
        )
    if table.frame[name].nunique() < 2:
        raise NotApplicable(
            f"faces: all are of one {name}, {table.frame[name].iloc[0]!r}. Nothing can be compared: choose "
            "exp.axes without it, or other faces."
        )


def permuted_cells(faces: Faces, draws: int, seed: int, step: int) -> Iterator[np.ndarray]:
    """Yield at most `step` permutations of the faces' cells at a time, [step, N]; the same at every call.

    People with the same number of faces exchange their labels; the faces of a person move together.
    """
    rng, cells = generator(faces.ids, seed, PERMUTATION_STREAM), faces.cell.astype(np.int16)
    blocks = blocks_of(faces.people, np.ones(len(cells), dtype=int))
    for start in range(0, draws, step):
        permuted = np.empty((min(step, draws - start), len(cells)), dtype=cells.dtype)
        for row in permuted:
            for block in blocks:
                row[block] = cells[block[rng.permutation(len(block))]]
        yield permuted


def reasons_without_p(faces: Faces, axis: Axis) -> list[str]:
    """Return the reason why a group of the axis has no p, for each group; empty where it has one.

    A person whose faces are of several groups counts as of no group.
    """
    face_counts = np.bincount(faces.people)
    members = axis.members[faces.cell]
    counts = np.stack([np.bincount(faces.people, weights=member) for member in members.T], axis=1)
    is_member, is_outside = counts == face_counts[:, None], counts == 0
    fewest = np.minimum(is_member.sum(axis=0), is_outside.sum(axis=0))
    log_placements, movable = np.zeros((2, len(axis.groups)))
    for size in np.unique(face_counts):
        exchanged = is_member[face_counts == size]
        total, inside = len(exchanged), exchanged.sum(axis=0)
        log_placements += gammaln(total + 1) - gammaln(inside + 1) - gammaln(total - inside + 1)
        movable += size * total * ((inside > 0) & (inside < total))
    reasons = np.select(
        [fewest < MIN_PEOPLE, log_placements < np.log(MIN_PLACEMENTS), movable < MIN_MOVABLE * len(members)],
        [
            f"fewer than {MIN_PEOPLE} people in the group or outside of it",
            f"fewer than {MIN_PLACEMENTS:,} ways to exchange people with equally many faces",
            "fewer than half of the faces have people with as many faces in the group and outside of it",
        ],
        "",
    )
    return list(map(str, reasons))


def notes_on_p(faces: Faces, measure: str) -> list[str]:
    """State which groups have no p of association and why, or that the p of retrieval is too small."""
    if measure == "retrieval" and len(np.unique(faces.people)) < len(faces.people):
        return ["p draws faces one by one, but some are of one person or share parents: p is too small"]
    groups: dict[str, list[str]] = {}
    for axis in faces.axes if measure == "association" else ():
        for group, reason in zip(axis.groups, reasons_without_p(faces, axis), strict=True):
            groups.setdefault(reason, []).append(group)
    return [f"no p for {', '.join(names)}: {reason}" for reason, names in groups.items() if reason]
