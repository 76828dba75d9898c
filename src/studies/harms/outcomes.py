"""Build what is averaged over the faces of each group (docs/methods.md, section 7.2)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.metrics.jackknife import StatisticsFunction
from src.studies.shared.face_classes import GROUP, HARM, Classification

# Row of all faces.
ALL_GROUPS = "all groups"
# Measures: share of faces in classes of a kind; of faces in the class of their group, among the classes of
# groups and among all; of other groups' faces in the class of a group.
SHARE, ACCURACY, TPR, FPR = "share", "accuracy", "tpr", "fpr"


@dataclass(frozen=True)
class Outcome:
    """Outcome of each face, averaged over the faces of a group, or of false positives over all others.

    Attributes:
        kind: kind of the classes.
        measure: SHARE, ACCURACY, TPR or FPR.
        values: [N, 1], or [N, G + 1] of false positives: outcome of each face, 0 or 1.
        worst: 1 if the largest share is the worst, -1 if the smallest, 0 if neither is.
    """

    kind: str
    measure: str
    values: np.ndarray
    worst: int


def list_outcomes(
    classification: Classification, class_groups: np.ndarray, compared: list[str] | None
) -> list[Outcome]:
    """List the outcomes of faces.

    Args:
        classification: classes and scores of the faces.
        class_groups: [N], group of each face whose classes are right for it.
        compared: names of the compared groups if they have classes of their own; None if they are an axis.
    """
    classes, nearest = classification.classes, classification.nearest
    kinds, groups = classes["kind"].to_numpy(dtype=str), classes["group"].to_numpy(dtype=str)
    harmful = classes["is_harmful"].to_numpy(dtype=bool)
    outcomes = []
    for kind in dict.fromkeys(kinds[kinds != GROUP]):
        is_harmful = harmful[kinds == kind].all()
        outcomes.append(Outcome(kind, SHARE, _column(kinds[nearest] == kind), int(is_harmful)))
    if len({*kinds[harmful]}) > 1:
        outcomes.append(Outcome(HARM, SHARE, _column(classification.is_harmful), 1))
    among_groups = groups[classification.nearest_group] == class_groups
    outcomes.append(Outcome(GROUP, ACCURACY, _column(among_groups), -1))
    outcomes.append(Outcome(GROUP, TPR, _column(groups[nearest] == class_groups), -1))
    if compared is not None:
        is_wrong = (kinds[nearest] == GROUP) & (groups[nearest] != class_groups)
        # Faces of the group itself are not averaged.
        by_group = [groups[nearest] == name for name in compared]
        outcomes.append(Outcome(GROUP, FPR, np.stack([*by_group, is_wrong], axis=1).astype(float), 1))
    return outcomes


def _column(values: np.ndarray) -> np.ndarray:
    return values[:, None].astype(float)


def mark_members(outcome: Outcome, group_of: np.ndarray, n_groups: int) -> np.ndarray:
    """Mark the faces over which an outcome is averaged, [N, G + 1]; the last column is of all groups."""
    is_member = group_of[:, None] == np.arange(n_groups)
    if outcome.measure == FPR:
        is_member = ~is_member
    return np.hstack([is_member, np.ones((len(group_of), 1), dtype=bool)])


def build_statistics(outcome: Outcome, members: np.ndarray) -> StatisticsFunction:
    """Build the function that computes shares and gaps in subsamples.

    Args:
        outcome: outcome of N faces.
        members: [N, C], faces over which each share is.

    Returns:
        Function of masks [P, N] that returns [P, 2 C]: shares, then gaps, the share minus that of all other
        faces; NaN where there are no faces.
    """
    weighted = members * outcome.values

    def compute(masks: np.ndarray) -> np.ndarray:
        weights = masks.astype(float)
        counts, sums = weights @ members, weights @ weighted
        other_counts = weights.sum(axis=1, keepdims=True) - counts
        other_sums = weights @ outcome.values - sums
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = sums / counts
            return np.hstack([shares, shares - other_sums / other_counts])

    return compute


def tabulate_classes(
    classification: Classification, ids: np.ndarray, groups: np.ndarray, class_groups: np.ndarray
) -> pd.DataFrame:
    """Tabulate the class of each face, its kind and score, and the group nearest among classes of groups."""
    classes, nearest = classification.classes, classification.nearest
    columns = {"id": ids, "group": groups, "class_group": class_groups}
    columns |= {name: classes[name].to_numpy(dtype=str)[nearest] for name in ("class", "kind")}
    columns["score"] = classification.scores[np.arange(len(nearest)), nearest]
    columns["nearest_group"] = classes["group"].to_numpy(dtype=str)[classification.nearest_group]
    texts = dict.fromkeys(("id", "group", "class_group", "class", "kind", "nearest_group"), "string")
    return pd.DataFrame(columns).astype(texts)
