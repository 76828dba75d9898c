"""FairFace (Kärkkäinen & Joo 2021): faces labelled by annotators with race, gender and age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from src.errors import InputError
from src.stimuli import pictures
from src.stimuli.csvs import read_csv, unique


def load(
    root: Path,
    csv: str,
    *,
    races: Mapping[str, Sequence[str]],
    genders: Mapping[str, Sequence[str]],
    ages: Sequence[str] | None,
    per_group: int | None,
    seed: int,
) -> tuple[pd.DataFrame, int, list[str]]:
    """Faces of the chosen groups.

    Args:
        root: folder of the csv, to which its column `file` is relative.
        csv: labels: columns `file`, `age`, `gender`, `race`.
        races: name in the group -> values of the csv's column.
        genders: likewise.
        ages: values of the csv's column; None takes all.
        per_group: draw so many of each group, without replacement; None takes all.
        seed: of the draw.

    Returns:
        Columns `id` (the file), `group` ("Black Women"), `race`, `gender`, `age`, `path`,
        `sha256`; rows of the csv; what was left out.

    Raises:
        InputError: files are missing or unreadable, a chosen value does not occur, or a group has
            fewer faces than `per_group`.
    """
    path = root / csv
    remedy = "Set dataset.root to the folder that holds fairface/, or faces.root to the one of the csv."
    rows = read_csv(path, ["file", "age", "gender", "race"], remedy)
    unique(rows, "file", path)
    race, gender = _names(rows, "race", races, path), _names(rows, "gender", genders, path)
    wanted = race.notna() & gender.notna()
    if ages is not None:
        wanted &= _names(rows, "age", {age: [age] for age in ages}, path).notna()
    frame = pd.DataFrame(
        {
            "id": rows["file"],
            "group": race + " " + gender,
            "race": race,
            "gender": gender,
            "age": rows["age"],
            "path": [str(root / name) for name in rows["file"]],
        }
    )[wanted]
    if frame.empty:
        raise InputError(
            f"{path}: no face is of a chosen race, gender and age at once. Choose others in faces.races, "
            "faces.genders or faces.ages."
        )
    notes = [f"{len(rows) - len(frame)} of other races, genders or ages"] if len(frame) < len(rows) else []
    frame, absent = pictures.present(frame, path)
    frame, left = _draw(frame, [f"{r} {g}" for r in races for g in genders], per_group, seed, path)
    frame["sha256"] = pictures.hashes([Path(item) for item in frame["path"]])
    return frame, len(rows), notes + absent + left


def _names(rows: pd.DataFrame, column: str, names: Mapping[str, Sequence[str]], path: Path) -> pd.Series:
    found = set(rows[column])
    for name, values in names.items():
        for value in values:
            if value not in found:
                raise InputError(
                    f"{path}: no face has {column} {value!r} (asked for by {name!r}); "
                    f"found {', '.join(sorted(found))}. Correct faces.{column}s."
                )
    return rows[column].map({value: name for name, values in names.items() for value in values})


def _draw(
    frame: pd.DataFrame, groups: Sequence[str], per_group: int | None, seed: int, path: Path
) -> tuple[pd.DataFrame, list[str]]:
    frame = frame.sort_values("id", kind="stable")
    sizes = {group: int((frame["group"] == group).sum()) for group in groups}
    least = min(sizes.values())
    if per_group is None:
        if least == 0:
            raise InputError(f"{path}: groups without a face: {sizes}. Choose others.")
        return frame.reset_index(drop=True), []
    if least < per_group:
        raise InputError(
            f"{path}: {per_group} faces per group were asked for, found {sizes}. "
            f"Set faces.per_group={least} or less, or null for all."
        )
    rng = np.random.default_rng(seed)
    chosen = [
        rng.choice(frame.index[frame["group"] == group].to_numpy(), per_group, replace=False)
        for group in sorted(groups)
    ]
    drawn = frame.loc[np.sort(np.concatenate(chosen))].reset_index(drop=True)
    left = len(frame) - len(drawn)
    return drawn, [f"{left} left by faces.per_group={per_group}"] if left else []
