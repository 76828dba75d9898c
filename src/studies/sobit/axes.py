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
from src.studies.shared.exchange_units import MIN_MOVABLE, MIN_PLACEMENTS, build_blocks
from src.studies.shared.resampling import create_generator, draw_weights

# Axis -> the columns of the face table that define it.
COLUMNS = {"race": ("race",), "gender": ("gender",), "both": ("race", "gender")}
# A group has a p only if at least this many people are in it, and outside of it.
MIN_PEOPLE = 5
# Stream of random numbers of the permutations; bootstrap draws use stream 0.
PERMUTATION_STREAM = 1


@dataclass(frozen=True)
class Axis:
    """A way to group faces."""

    name: str  # race, gender or both
    groups: list[str]  # group names, sorted
    is_member: np.ndarray  # [cells, G], true if a cell belongs to a group
    base: np.ndarray  # [G], share of each group among all faces
    sizes: np.ndarray  # [G], number of faces in each group
    columns: slice  # columns of the axis's groups in arrays over the groups of all axes


@dataclass(frozen=True)
class Faces:
    """The faces of an audit, in cells of equal race and gender."""

    frame: pd.DataFrame  # rows of the faces in the stimulus table
    cell_of_face: np.ndarray  # [N], index of each face's cell: race x gender, or only what the axes need
    cell_names: list[str]  # names of the cells
    axes: tuple[Axis, ...]  # chosen axes
    face_clusters: pd.DataFrame  # cluster of each face, or its two parents, see `clusters.assign_clusters`

    @property
    def ids(self) -> np.ndarray:
        """Return the ids of the faces."""
        return self.frame["id"].to_numpy(dtype=str)

    @property
    def is_member(self) -> np.ndarray:
        """Return whether a cell belongs to a group, [cells, groups of all axes]."""
        return np.concatenate([axis.is_member for axis in self.axes], axis=1)

    @cached_property
    def person_of_face(self) -> np.ndarray:
        """Return the index of the person in each face, [N]; faces linked by morphs count as one person."""
        persons: np.ndarray = pd.factorize(clusters.merge_linked(self.face_clusters), sort=True)[0]
        return persons

    def draw_weights(self, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Draw bootstrap weights: how often each face occurs in each bootstrap sample.

        Each sample draws people with all their faces in the cell; for morphs it draws parents.

        Yields:
            For each cell, the rows of its faces and their weights, [draws, rows].
        """
        units = self.face_clusters.assign(name=self.face_clusters.get(clusters.CLUSTER, self.frame["id"]))
        for cell in range(len(self.cell_names)):
            rows = np.flatnonzero(self.cell_of_face == cell)
            yield rows, draw_weights(units.iloc[rows], draws, seed)


def group_faces(table: Table, axes: Sequence[str]) -> Faces:
    """Group the faces of a table by each axis of `COLUMNS`.

    Raises:
        InputError: an axis is unknown or repeated, or some faces have no race or gender.
        NotApplicable: all faces lack race or gender, or all have the same.
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
    cell_of_face, cell_names = pd.factorize(cell_labels, sort=True)
    _, first_rows = np.unique(cell_of_face, return_index=True)
    cell_sizes = np.bincount(cell_of_face)
    built_axes: list[Axis] = []
    for axis in axes:
        columns = frame.iloc[first_rows][list(COLUMNS[axis])].astype(str)
        labels = columns.agg(" ".join, axis=1).tolist()
        groups = sorted(set(labels))
        is_member = np.array(labels)[:, None] == np.array(groups)[None]
        sizes = cell_sizes @ is_member
        start = built_axes[-1].columns.stop if built_axes else 0
        axis_slice = slice(start, start + len(groups))
        built_axes.append(Axis(axis, groups, is_member, sizes / len(frame), sizes, axis_slice))
    face_clusters = clusters.assign_clusters(table)
    return Faces(frame, cell_of_face, list(map(str, cell_names)), tuple(built_axes), face_clusters)


def _check_column(table: Table, name: str) -> None:
    if name not in table.frame.columns or table.frame[name].isna().all():
        raise NotApplicable(
            f"faces: expected a column {name}, by which this audit groups faces; got "
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
            f"faces: expected two or more values of {name}, got only {table.frame[name].iloc[0]!r}. Choose "
            "exp.axes without it, or other faces."
        )


def permute_cells(faces: Faces, draws: int, seed: int, step: int) -> Iterator[np.ndarray]:
    """Draw permutations of the faces' cells, at most `step` at a time.

    People with the same number of faces exchange their labels; the faces of a person move together. Every
    call draws the same permutations.

    Yields:
        Cell of each face in each permutation, [step, N].
    """
    rng, cells = create_generator(faces.ids, seed, PERMUTATION_STREAM), faces.cell_of_face.astype(np.int16)
    blocks = build_blocks(faces.person_of_face, np.ones(len(cells), dtype=int))
    for start in range(0, draws, step):
        permuted = np.empty((min(step, draws - start), len(cells)), dtype=cells.dtype)
        for row in permuted:
            for block in blocks:
                row[block] = cells[block[rng.permutation(len(block))]]
        yield permuted


def explain_missing_p(faces: Faces, axis: Axis) -> list[str]:
    """Explain for each group of the axis why it has no p; an empty string for a group with a p.

    People with faces of several groups belong to none of them.
    """
    face_counts = np.bincount(faces.person_of_face)
    faces_in_group = axis.is_member[faces.cell_of_face]
    counts = np.stack(
        [np.bincount(faces.person_of_face, weights=in_group) for in_group in faces_in_group.T], axis=1
    )
    is_inside, is_outside = counts == face_counts[:, None], counts == 0  # [people, G]
    fewest_people = np.minimum(is_inside.sum(axis=0), is_outside.sum(axis=0))
    log_placements, movable_faces = np.zeros((2, len(axis.groups)))
    for face_count in np.unique(face_counts):
        exchangeable = is_inside[face_counts == face_count]
        total, inside = len(exchangeable), exchangeable.sum(axis=0)
        log_placements += gammaln(total + 1) - gammaln(inside + 1) - gammaln(total - inside + 1)
        movable_faces += face_count * total * ((inside > 0) & (inside < total))
    reasons = np.select(
        [
            fewest_people < MIN_PEOPLE,
            log_placements < np.log(MIN_PLACEMENTS),
            movable_faces < MIN_MOVABLE * len(faces_in_group),
        ],
        [
            f"fewer than {MIN_PEOPLE} people in the group or outside of it",
            f"fewer than {MIN_PLACEMENTS:,} ways to exchange people with equally many faces",
            "fewer than half of the faces have people with as many faces in the group and outside of it",
        ],
        "",
    )
    return list(map(str, reasons))


def describe_missing_p(faces: Faces, measure: str) -> list[str]:
    """Describe which groups have no p of association and why, or that the p of retrieval is too small."""
    if measure == "retrieval" and len(np.unique(faces.person_of_face)) < len(faces.person_of_face):
        return ["p draws faces one by one, but some are of one person or share parents: p is too small"]
    groups_by_reason: dict[str, list[str]] = {}
    for axis in faces.axes if measure == "association" else ():
        for group, reason in zip(axis.groups, explain_missing_p(faces, axis), strict=True):
            groups_by_reason.setdefault(reason, []).append(group)
    return [f"no p for {', '.join(names)}: {reason}" for reason, names in groups_by_reason.items() if reason]
