"""Select the faces of the groups of a config, and sample each group."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src import configs
from src.errors import InputError, first_few
from src.stimuli.pictures import drop_copies

# Configs that select faces by race and gender.
GroupsConfig = configs.FairFaceConfig | configs.CfdConfig | configs.UtkFaceConfig
# Configs whose groups are those of the faces.
ListedConfig = configs.FolderConfig | configs.PictureFoldersConfig | configs.FaceTableConfig


def map_values(
    rows: pd.DataFrame, column: str, names: Mapping[Any, Sequence[Any]], path: Path, setting: str = ""
) -> pd.Series:
    """Map the values of a column to their names in the config; null for other values.

    `setting` is the setting of the names, for messages; by default `faces.{column}s`.
    """
    column_values = set(rows[column])
    for name, values in names.items():
        for value in values:
            if value not in column_values:
                raise InputError(
                    f"{path}: no face has {column} {value!r} (for {name!r}); found "
                    f"{first_few(sorted(column_values - {''}), 30)}. Correct {setting or f'faces.{column}s'}."
                )
    return rows[column].map({value: name for name, values in names.items() for value in values})


def select_groups(
    rows: pd.DataFrame, cfg: GroupsConfig, path: Path, attribute: str, values: Collection[object] | None
) -> tuple[pd.DataFrame, list[str]]:
    """Select the faces of the configured groups, and add the column `group`; return notes on other faces.

    `attribute` is a third column, age or expression, whose value has to be among `values`; None accepts all.
    """
    has_value = pd.Series(True, rows.index)
    if values is not None:
        has_value = map_values(rows, attribute, {value: [value] for value in values}, path).notna()
    race, gender = map_values(rows, "race", cfg.races, path), map_values(rows, "gender", cfg.genders, path)
    is_selected = race.notna() & gender.notna() & has_value
    if not is_selected.any():
        raise InputError(
            f"{path}: no face is of a chosen race, gender and {attribute}. Change faces.races or "
            f"faces.{attribute}s."
        )
    n_left_out = len(rows) - int(is_selected.sum())
    selected_rows = rows.assign(race=race, gender=gender, group=race + " " + gender)[is_selected]
    notes = [f"{n_left_out} of other races, genders or {attribute}s"] if n_left_out else []
    return selected_rows, notes


def combine_group_names(races: Mapping[str, object], genders: Mapping[str, object]) -> list[str]:
    """Combine every race with every gender into names of groups.

    >>> combine_group_names({"Asian": [], "Black": []}, {"Men": []})
    ['Asian Men', 'Black Men']
    """
    return [f"{race} {gender}" for race in races for gender in genders]


def sample_groups(
    frame: pd.DataFrame, cfg: GroupsConfig | ListedConfig, path: Path
) -> tuple[pd.DataFrame, list[str]]:
    """Draw `per_group` faces of each group without replacement, after dropping copies of pictures.

    The sample depends on the seed and the ids. The order of the rows determines only which of several copies
    of a picture is used. Faces with a column `set` are drawn by whole sets, see `_draw_sets`.

    Raises:
        InputError: copies are refused, a group has too few faces, or whole sets leave it none.
    """
    groups = sorted(set(frame["group"]))
    if not isinstance(cfg, ListedConfig):
        groups = combine_group_names(cfg.races, cfg.genders)
    frame, notes = drop_copies(frame, path, cfg.duplicates, "faces")
    frame = frame.sort_values("id", kind="stable")
    sizes = {group: int((frame["group"] == group).sum()) for group in groups}
    min_size = min(sizes.values())
    if min_size == 0:
        remedy = "or choose others in faces.races and faces.genders"
        # Groups of a list or of folders are those of the pictures: copies were dropped from this group.
        if isinstance(cfg, configs.PictureFoldersConfig):
            remedy = "that are not copies of others, or name other folders in faces.groups"
        elif isinstance(cfg, ListedConfig):
            remedy = "that are not copies of others, or delete their rows"
        raise InputError(f"{path}: groups without a face: {sizes}. Add pictures of them, {remedy}.")
    if cfg.per_group is None:
        return frame.reset_index(drop=True), notes
    if min_size < cfg.per_group:
        raise InputError(
            f"{path}: {cfg.per_group} faces per group requested, found {sizes}. "
            f"Set faces.per_group={min_size} or less, or null for all."
        )
    rng = np.random.default_rng(cfg.seed)
    if "set" in frame:
        sample = frame[_draw_sets(frame, cfg.per_group, rng)].reset_index(drop=True)
    else:
        indices = [
            rng.choice(frame.index[frame["group"] == group].to_numpy(), cfg.per_group, replace=False)
            for group in sorted(groups)
        ]
        sample = frame.loc[np.sort(np.concatenate(indices))].reset_index(drop=True)
    if n_left_out := len(frame) - len(sample):
        notes = [*notes, f"{n_left_out} left out by faces.per_group={cfg.per_group}"]
    sizes = {group: int((sample["group"] == group).sum()) for group in groups}
    if min(sizes.values()) == 0:
        raise InputError(
            f"{path}: faces.per_group={cfg.per_group} leaves groups without a face, as sets are drawn whole: "
            f"{sizes}. Raise faces.per_group, or set it to null for all."
        )
    if small := [f"{group}: {size}" for group, size in sizes.items() if size < cfg.per_group]:
        notes = [*notes, f"groups with fewer, as sets are drawn whole ({first_few(small, 30)})"]
    return sample, notes


def _draw_sets(frame: pd.DataFrame, per_group: int, rng: np.random.Generator) -> np.ndarray:
    """Draw whole sets of faces in random order, skipping those that would give a group too many; a mask [N].

    A face without a set is a set by itself. Groups have `per_group` faces or, if no further set fits, fewer.
    """
    set_of_face, _ = pd.factorize(frame["set"].where(frame["set"].notna(), "\0" + frame["id"]), sort=True)
    group_of_face, groups = pd.factorize(frame["group"], sort=True)
    counts = np.zeros((set_of_face.max() + 1, len(groups)), dtype=int)
    np.add.at(counts, (set_of_face, group_of_face), 1)
    totals, is_drawn = np.zeros(len(groups), dtype=int), np.zeros(len(counts), dtype=bool)
    for number in rng.permutation(len(counts)):
        if (totals + counts[number] <= per_group).all():
            totals += counts[number]
            is_drawn[number] = True
    return np.asarray(is_drawn[set_of_face])
