"""Group the faces of a So-B-IT audit by attributes and their combinations, and permute these labels.

See docs/methods.md, sections 6.1 and 6.8.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import gammaln

from src.errors import InputError
from src.stimuli import Table, clusters
from src.studies.shared.exchange_units import (
    MIN_MOVABLE,
    MIN_PLACEMENTS,
    People,
    build_blocks,
    build_set_blocks,
    find_people,
    permute_blocks,
)
from src.studies.shared.face_axes import check_attribute, split_axis
from src.studies.shared.resampling import create_generator, draw_weights

# A group has a p only if at least this many people are in it, and outside of it.
MIN_PEOPLE = 5
# Stream of random numbers of the permutations; bootstrap draws use stream 0.
PERMUTATION_STREAM = 1


@dataclass(frozen=True)
class Axis:
    """A way to group faces."""

    name: str  # name in the config, such as race, both or race:age
    groups: list[str]  # group names, sorted
    is_member: np.ndarray  # [cells, G], true if a cell belongs to a group
    base: np.ndarray  # [G], share of each group among all faces
    sizes: np.ndarray  # [G], number of faces in each group
    columns: slice  # columns of the axis's groups in arrays over the groups of all axes


@dataclass(frozen=True)
class Faces:
    """The faces of an audit, in cells of equal attributes."""

    frame: pd.DataFrame  # rows of the faces in the stimulus table
    cell_of_face: np.ndarray  # [N], index of each face's cell: a combination of all attributes of the axes
    cell_names: list[str]  # names of the cells
    axes: tuple[Axis, ...]  # chosen axes
    face_clusters: pd.DataFrame  # cluster of each face, or its two parents, see `clusters.assign_clusters`
    people: People | None = None  # people in sets of matched pictures, who change places within their sets

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
        if self.people is not None:
            return self.people.person
        persons: np.ndarray = pd.factorize(clusters.merge_linked(self.face_clusters), sort=True)[0]
        return persons

    @cached_property
    def blocks(self) -> tuple[np.ndarray, ...]:
        """Return the blocks of people who change places, see `build_blocks` and `build_set_blocks`."""
        everywhere = np.ones(len(self.cell_of_face), dtype=int)
        if self.people is not None:
            return build_set_blocks(self.people, everywhere)
        return build_blocks(self.person_of_face, everywhere)

    @property
    def has_linked(self) -> bool:
        """Return whether faces are of one person, or share parents or a set."""
        return self.people is not None or len(np.unique(self.person_of_face)) < len(self.person_of_face)

    def draw_weights(self, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Draw bootstrap weights: how often each face occurs in each bootstrap sample.

        Each sample draws people with all their faces in the cell; for morphs it draws parents. Sets of
        matched pictures are drawn entirely, with their faces in all cells.

        Yields:
            For each cell, the rows of its faces and their weights, [draws, rows].
        """
        units = self.face_clusters.assign(name=self.face_clusters.get(clusters.CLUSTER, self.frame["id"]))
        weights = draw_weights(units, draws, seed) if self.people is not None else None
        for cell in range(len(self.cell_names)):
            rows = np.flatnonzero(self.cell_of_face == cell)
            yield rows, draw_weights(units.iloc[rows], draws, seed) if weights is None else weights[:, rows]


def group_faces(table: Table, axes: Sequence[str]) -> Faces:
    """Group the faces of a table by each axis: columns of the table, or combinations (`split_axis`).

    Raises:
        InputError: there is no axis, an axis or a column of it is repeated, or some faces lack an attribute.
        NotApplicable: the table lacks an attribute, or all faces have the same.
    """
    columns_by_axis = {axis: split_axis(axis) for axis in axes}
    distinct = {frozenset(columns) for columns in columns_by_axis.values()}
    if (
        not axes
        or len(distinct) < len(axes)
        or any(len({*columns}) < len(columns) for columns in columns_by_axis.values())
    ):
        raise InputError(
            f"exp.axes={list(axes)}: expected one or more of {', '.join(table.attributes)}, or combinations "
            "such as race:gender, each once."
        )
    all_columns = dict.fromkeys(column for columns in columns_by_axis.values() for column in columns)
    # Race and gender come first, as in the names of most groups.
    needed_columns = sorted(all_columns, key=lambda name: ["race", "gender", name].index(name))
    for name in needed_columns:
        check_attribute(table, name, "exp.axes")
    frame = table.frame
    cell_labels = frame[needed_columns[0]].astype(str)
    for name in needed_columns[1:]:
        cell_labels = cell_labels + " " + frame[name].astype(str)
    cell_of_face, cell_names = pd.factorize(cell_labels, sort=True)
    _, first_rows = np.unique(cell_of_face, return_index=True)
    cell_sizes = np.bincount(cell_of_face)
    built_axes: list[Axis] = []
    for axis in axes:
        columns = frame.iloc[first_rows][list(columns_by_axis[axis])].astype(str)
        labels = columns.agg(" ".join, axis=1).tolist()
        groups = sorted(set(labels))
        is_member = np.array(labels)[:, None] == np.array(groups)[None]
        sizes = cell_sizes @ is_member
        start = built_axes[-1].columns.stop if built_axes else 0
        axis_slice = slice(start, start + len(groups))
        built_axes.append(Axis(axis, groups, is_member, sizes / len(frame), sizes, axis_slice))
    face_clusters = clusters.assign_clusters(table)
    return Faces(
        *(frame, cell_of_face, list(map(str, cell_names)), tuple(built_axes), face_clusters),
        find_people(table),
    )


def permute_cells(faces: Faces, draws: int, seed: int, step: int) -> Iterator[np.ndarray]:
    """Draw permutations of the faces' cells, at most `step` at a time.

    People with the same number of faces exchange their labels; the faces of a person move together. In sets
    of matched pictures, people of the same sets do. Every call draws the same permutations.

    Yields:
        Cell of each face in each permutation, [step, N].
    """
    rng, cells = create_generator(faces.ids, seed, PERMUTATION_STREAM), faces.cell_of_face.astype(np.int16)
    for start in range(0, draws, step):
        permuted = np.empty((min(step, draws - start), len(cells)), dtype=cells.dtype)
        for row in permuted:
            row[:] = cells[permute_blocks(faces.blocks, len(cells), rng)]
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
    for block in faces.blocks:
        total, face_count = block.shape[-2:]
        # [blocks, G]: people inside the group in each block of people who change places.
        inside = (
            is_inside[faces.person_of_face[block[..., 0]]].reshape(-1, total, len(axis.groups)).sum(axis=1)
        )
        log_counts = gammaln(total + 1) - gammaln(inside + 1) - gammaln(total - inside + 1)
        log_placements += log_counts.sum(axis=0)
        movable_faces += face_count * total * ((inside > 0) & (inside < total)).sum(axis=0)
    share_text = "fewer than half of the faces have people with as many faces in the group and outside of it"
    if faces.people is not None:
        share_text = "fewer than half of the faces are in a set with people in the group and outside of it"
    reasons = np.select(
        [
            fewest_people < MIN_PEOPLE,
            log_placements < np.log(MIN_PLACEMENTS),
            movable_faces < MIN_MOVABLE * len(faces_in_group),
        ],
        [
            f"fewer than {MIN_PEOPLE} people in the group or outside of it",
            f"fewer than {MIN_PLACEMENTS:,} ways to exchange people with equally many faces",
            share_text,
        ],
        "",
    )
    return list(map(str, reasons))


def describe_missing_p(faces: Faces, measure: str) -> list[str]:
    """Describe which groups have no p and why; retrieval of unlinked faces always has a p."""
    groups_by_reason: dict[str, list[str]] = {}
    is_tested = measure == "association" or (measure == "retrieval" and faces.has_linked)
    for axis in faces.axes if is_tested else ():
        for group, reason in zip(axis.groups, explain_missing_p(faces, axis), strict=True):
            groups_by_reason.setdefault(reason, []).append(group)
    return [f"no p for {', '.join(names)}: {reason}" for reason, names in groups_by_reason.items() if reason]
