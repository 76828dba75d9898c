"""Select the pictures of matched sets (docs/methods.md, section 8.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.errors import InputError, NotApplicable, brief, did_you_mean, first_few
from src.stimuli import Table, clusters
from src.studies.matched.config import MatchedConfig

SET = "set"


@dataclass(frozen=True)
class Pool:
    """Pictures of the sets that an experiment uses.

    Attributes:
        rows: [N], rows of the pictures in the table of faces.
        ids: [N], their ids.
        groups: names of the groups, sorted.
        group_of: [N], index of each picture's group.
        set_names: names of the sets, sorted.
        set_of: [N], index of each picture's set.
        subjects: names of the subjects, sorted; empty if the experiment needs none.
        subject_of: [N], index of each picture's subject.
        persons: [N], name of the person in each picture; an unknown person is named after the picture.
        units: [N], name of each picture's unit: its set, or all sets that are linked by persons.
        notes: remarks on pictures and sets that are left out.
    """

    rows: np.ndarray
    ids: np.ndarray
    groups: list[str]
    group_of: np.ndarray
    set_names: list[str]
    set_of: np.ndarray
    subjects: list[str]
    subject_of: np.ndarray
    persons: np.ndarray
    units: np.ndarray
    notes: tuple[str, ...]

    @property
    def base(self) -> np.ndarray:
        """Return the share of each group, [G]."""
        return np.asarray(np.bincount(self.group_of, minlength=len(self.groups)) / len(self.group_of))

    @property
    def is_member(self) -> np.ndarray:
        """Return whether each picture is of each group, [N, G]."""
        return np.asarray(self.group_of[:, None] == np.arange(len(self.groups)))


def select_pool(faces: Table, exp: MatchedConfig) -> Pool:
    """Select the pictures of sets with several groups; count what is left out.

    Raises:
        NotApplicable: the faces have no sets, no subjects, fewer than two groups, or no set with all groups.
        InputError: a group is unknown, or a set has no subject or several subjects.
    """
    _check_columns(faces, exp)
    frame, notes = faces.frame, []
    groups = _choose_groups(faces, exp.groups)
    is_used = frame["group"].isin(groups).to_numpy()
    names = _read_texts(frame[SET])
    if count := int((is_used & (names == "")).sum()):
        notes.append(f"{count} pictures have no set: left out")
    is_used = is_used & (names != "")
    by_set = frame["group"].where(is_used).groupby(names)
    n_groups, n_rows = by_set.transform("nunique").to_numpy(), int(is_used.sum())
    if count := len({*names[is_used & (n_groups == 1)]}):
        notes.append(f"{count} sets show a single group: left out")
    is_used = is_used & (n_groups > 1)
    is_incomplete = is_used & (n_groups < len(groups))
    if count := len({*names[is_incomplete]}):
        total = len({*names[is_used]})
        example = brief(names[is_incomplete][0])
        absent = sorted({*groups} - {*frame["group"][is_used & (names == example)]})
        reason = f"{count} of {total} sets lack a group (first {example!r}: {first_few(absent)})"
        if exp.incomplete == "use":
            notes.append(f"{reason}: used")
        elif count < total:
            notes.append(f"{reason}: left out; exp.incomplete=use uses them")
            is_used = is_used & ~is_incomplete
        else:
            raise NotApplicable(
                f"faces: {reason}. Set exp.incomplete=use, or choose the groups to compare with exp.groups."
            )
    if not is_used.any():
        raise NotApplicable(
            f"faces: no set of the {n_rows} pictures with a set shows two groups. Give the pictures of a "
            "scene with several people the same value of the column set."
        )
    return _build_pool(faces, exp, np.flatnonzero(is_used), notes)


def _build_pool(faces: Table, exp: MatchedConfig, rows: np.ndarray, notes: Sequence[str]) -> Pool:
    frame = faces.frame.iloc[rows].reset_index(drop=True)
    set_of, set_names = pd.factorize(_read_texts(frame[SET]), sort=True)
    group_of, groups = pd.factorize(frame["group"].to_numpy(dtype=str), sort=True)
    subject_of, subjects = np.zeros(len(frame), dtype=int), np.empty(0, dtype=str)
    if exp.measure == "retrieval":
        subject_of, subjects = _read_subjects(frame, exp.subject, set_of, set_names)
    units = clusters.merge_linked(clusters.assign_clusters(Table("faces", frame, len(frame))))
    return Pool(
        rows=rows,
        ids=frame["id"].to_numpy(dtype=str),
        groups=list(map(str, groups)),
        group_of=group_of,
        set_names=list(map(str, set_names)),
        set_of=set_of,
        subjects=list(map(str, subjects)),
        subject_of=subject_of,
        persons=clusters.assign_people(frame).to_numpy(dtype=str),
        units=units.to_numpy(dtype=str),
        notes=tuple(notes),
    )


def _check_columns(faces: Table, exp: MatchedConfig) -> None:
    frame = faces.frame
    if SET not in frame or not (_read_texts(frame[SET]) != "").any():
        raise NotApplicable(
            "faces: expected a column set, which has one value for the pictures of one scene with different "
            f"people; got {brief(', '.join(map(str, frame)))}. Add it to the table of faces (faces=people: "
            "faces.set=COLUMN), or choose a dataset with sets (docs/matched.md)."
        )
    if exp.measure == "retrieval" and exp.subject not in frame:
        columns = [*map(str, frame)]
        raise NotApplicable(
            f"exp.subject={exp.subject}: the faces have no such column.{did_you_mean(exp.subject, columns)} "
            f"There are: {brief(', '.join(columns))}. Name the column that says what a set's scene "
            "shows."
        )


def _choose_groups(faces: Table, chosen: Sequence[str] | None) -> list[str]:
    groups = faces.groups if chosen is None else sorted({*chosen})
    for group in groups:
        if group not in faces.groups:
            raise InputError(
                f"exp.groups: no faces of {brief(group)!r}.{did_you_mean(group, faces.groups)} There are: "
                f"{', '.join(faces.groups)}."
            )
    if len(groups) < 2:
        raise NotApplicable(
            f"faces: a set compares two groups or more, got {', '.join(groups) or 'none'}. Choose other "
            "faces."
        )
    return groups


def _read_subjects(
    frame: pd.DataFrame, column: str, set_of: np.ndarray, set_names: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    texts = _read_texts(frame[column])
    if (is_empty := texts == "").any():
        raise InputError(
            f"faces: {int(is_empty.sum())} of {len(texts)} pictures of sets have no {column}, first "
            f"{brief(frame['id'][is_empty].iloc[0])!r}. Fill it in, or remove their set."
        )
    counts = pd.Series(texts).groupby(set_of).nunique()
    if (counts > 1).any():
        number = counts.index[counts.to_numpy() > 1][0]
        values = sorted({*texts[set_of == number]})
        raise InputError(
            f"faces: {int((counts > 1).sum())} sets have several values of {column}, first "
            f"{brief(set_names[number])!r} ({first_few(values)}). A set shows one scene: correct set or "
            f"{column}."
        )
    codes, names = pd.factorize(texts, sort=True)
    return codes, names


def _read_texts(column: pd.Series) -> np.ndarray:
    """Return a column as text without outer blanks; empty where missing."""
    return np.asarray(column.astype("string").fillna("").str.strip().to_numpy(dtype=str))
