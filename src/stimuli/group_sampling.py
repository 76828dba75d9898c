"""Faces by group: which of a table belong to the groups that a config names, and a draw of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from src import configs
from src.errors import InputError
from src.stimuli.duplicates import distinct

# Choose faces by race and gender.
GroupsConfig = configs.FairFaceConfig | configs.CfdConfig | configs.UtkFaceConfig


def named(rows: pd.DataFrame, column: str, names: Mapping[str, Sequence[str]], path: Path) -> pd.Series:
    """What the config calls the values of a column.

    Args:
        rows: one per face.
        column: race, gender, age or expression; `faces.{column}s` is the field that chooses from it.
        names: name -> values of the column.
        path: where the rows come from, for messages.

    Returns:
        One name per row, null where the value was not chosen.

    Raises:
        InputError: a chosen value does not occur.
    """
    found = set(rows[column])
    for name, values in names.items():
        for value in values:
            if value not in found:
                raise InputError(
                    f"{path}: no face has {column} {value!r} (asked for by {name!r}); "
                    f"found {', '.join(sorted(found))}. Correct faces.{column}s."
                )
    return rows[column].map({value: name for name, values in names.items() for value in values})


def grouped(
    rows: pd.DataFrame, cfg: GroupsConfig, path: Path, third: str, wanted: pd.Series | None
) -> tuple[pd.DataFrame, list[str]]:
    """The faces of the chosen groups.

    Args:
        rows: one per face, with columns `race` and `gender` as the dataset codes them.
        cfg: which of them to name how.
        path: where the rows come from, for messages.
        third: what else chooses faces: age or expression.
        wanted: its choice, one truth value per row; None takes all.

    Returns:
        The rows that remain, `race` and `gender` named, with `group` ("Black Women"); what was
        left out.

    Raises:
        InputError: a chosen value does not occur, or no face meets all choices.
    """
    race, gender = named(rows, "race", cfg.races, path), named(rows, "gender", cfg.genders, path)
    keep = race.notna() & gender.notna()
    if wanted is not None:
        keep &= wanted
    if not keep.any():
        raise InputError(
            f"{path}: no face is of a chosen race, gender and {third} at once. Choose others in "
            f"faces.races, faces.genders or faces.{third}s."
        )
    left = len(rows) - int(keep.sum())
    chosen = rows.assign(race=race, gender=gender, group=race + " " + gender)[keep]
    return chosen, [f"{left} of other races, genders or {third}s"] if left else []


def group_names(races: Mapping[str, object], genders: Mapping[str, object]) -> list[str]:
    """Every race with every gender.

    >>> group_names({"Asian": [], "Black": []}, {"Men": []})
    ['Asian Men', 'Black Men']
    """
    return [f"{race} {gender}" for race in races for gender in genders]


def sampled(
    frame: pd.DataFrame, groups: Sequence[str], cfg: GroupsConfig | configs.FolderConfig, path: Path
) -> tuple[pd.DataFrame, list[str]]:
    """Draw faces of each group, after pictures that occur twice are refused or dropped.

    Args:
        frame: columns `id`, `group` and `path`.
        groups: all that must be there.
        cfg: how many of each, without replacement, by which seed, and what becomes of duplicates
            (`src.stimuli.duplicates.distinct`).
        path: where the faces come from, for messages.

    Returns:
        The faces, which depend on no order of the rows; how many were dropped and left out.

    Raises:
        InputError: a picture occurs twice, or a group has no face, or fewer than `per_group`.
    """
    frame, copies = distinct(frame, path, cfg.duplicates, "faces")
    frame = frame.sort_values("id", kind="stable")
    sizes = {group: int((frame["group"] == group).sum()) for group in groups}
    smallest = min(sizes.values())
    if smallest == 0:
        raise InputError(
            f"{path}: groups without a face: {sizes}. Add pictures of them, or choose others in faces.races "
            "and faces.genders."
        )
    if cfg.per_group is None:
        return frame.reset_index(drop=True), copies
    if smallest < cfg.per_group:
        raise InputError(
            f"{path}: {cfg.per_group} faces per group were asked for, found {sizes}. "
            f"Set faces.per_group={smallest} or less, or null for all."
        )
    rng = np.random.default_rng(cfg.seed)
    chosen = [
        rng.choice(frame.index[frame["group"] == group].to_numpy(), cfg.per_group, replace=False)
        for group in sorted(groups)
    ]
    drawn = frame.loc[np.sort(np.concatenate(chosen))].reset_index(drop=True)
    left = len(frame) - len(drawn)
    return drawn, copies + ([f"{left} left by faces.per_group={cfg.per_group}"] if left else [])
