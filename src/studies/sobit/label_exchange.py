"""Draw permutations of the race and gender of people (docs/methods.md, sections 6.1 and 6.8)."""

from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln

from src.studies.shared.exchange_units import MIN_MOVABLE, MIN_PLACEMENTS, blocks_of
from src.studies.shared.resampling import generator
from src.studies.sobit.axes import Axis, Faces

# A group has no p if fewer people than this are in it, or outside of it.
MIN_PEOPLE = 5
# Random stream of the permutations; bootstrap draws use stream 0.
PERMUTATION_STREAM = 1


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
