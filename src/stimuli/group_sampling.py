"""Select the faces of the groups that a config names, and draw a sample of each."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src import configs
from src.errors import InputError
from src.stimuli.pictures import drop_copies

# Configs that choose faces by race and gender.
GroupsConfig = configs.FairFaceConfig | configs.CfdConfig | configs.UtkFaceConfig


def map_values(rows: pd.DataFrame, column: str, names: Mapping[Any, Sequence[Any]], path: Path) -> pd.Series:
    """Map the values of a column to the names that `faces.{column}s` gives them; null if it gives none."""
    present = set(rows[column])
    for name, values in names.items():
        for value in values:
            if value not in present:
                raise InputError(
                    f"{path}: no face has {column} {value!r} (for {name!r}); found "
                    f"{', '.join(sorted(present))}. Correct faces.{column}s."
                )
    return rows[column].map({value: name for name, values in names.items() for value in values})


def select_groups(
    rows: pd.DataFrame, cfg: GroupsConfig, path: Path, third: str, values: Collection[object] | None
) -> tuple[pd.DataFrame, list[str]]:
    """Select and name the faces of the chosen groups, and note how many are left out.

    `third` names a third attribute, age or expression, which must be one of `values`; None selects all.
    """
    is_wanted = pd.Series(True, rows.index)
    if values is not None:
        is_wanted = map_values(rows, third, {value: [value] for value in values}, path).notna()
    race, gender = map_values(rows, "race", cfg.races, path), map_values(rows, "gender", cfg.genders, path)
    keep = race.notna() & gender.notna() & is_wanted
    if not keep.any():
        raise InputError(
            f"{path}: no face is of a chosen race, gender and {third}. Change faces.races or faces.{third}s."
        )
    left_out = len(rows) - int(keep.sum())
    chosen = rows.assign(race=race, gender=gender, group=race + " " + gender)[keep]
    return chosen, [f"{left_out} of other races, genders or {third}s"] if left_out else []


def group_names(races: Mapping[str, object], genders: Mapping[str, object]) -> list[str]:
    """Combine every race with every gender.

    >>> group_names({"Asian": [], "Black": []}, {"Men": []})
    ['Asian Men', 'Black Men']
    """
    return [f"{race} {gender}" for race in races for gender in genders]


def sample_groups(
    frame: pd.DataFrame, cfg: GroupsConfig | configs.FolderConfig, path: Path
) -> tuple[pd.DataFrame, list[str]]:
    """Draw `per_group` faces of each group without replacement, from distinct pictures.

    The draw depends on the seed and the ids; the order of the rows only decides which of several copies
    stays.
    """
    groups = sorted(set(frame["group"]))
    if not isinstance(cfg, configs.FolderConfig):
        groups = group_names(cfg.races, cfg.genders)
    frame, notes = drop_copies(frame, path, cfg.duplicates, "faces")
    frame = frame.sort_values("id", kind="stable")
    sizes = {group: int((frame["group"] == group).sum()) for group in groups}
    smallest = min(sizes.values())
    if smallest == 0:
        raise InputError(
            f"{path}: groups without a face: {sizes}. Add pictures of them, or choose others in faces.races "
            "and faces.genders."
        )
    if cfg.per_group is None:
        return frame.reset_index(drop=True), notes
    if smallest < cfg.per_group:
        raise InputError(
            f"{path}: {cfg.per_group} faces per group requested, found {sizes}. "
            f"Set faces.per_group={smallest} or less, or null for all."
        )
    rng = np.random.default_rng(cfg.seed)
    chosen = [
        rng.choice(frame.index[frame["group"] == group].to_numpy(), cfg.per_group, replace=False)
        for group in sorted(groups)
    ]
    sample = frame.loc[np.sort(np.concatenate(chosen))].reset_index(drop=True)
    left_out = len(frame) - len(sample)
    return sample, notes + ([f"{left_out} left out by faces.per_group={cfg.per_group}"] if left_out else [])
