"""Any folder of pictures beside a csv that says to which group each belongs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from src.configs import FolderConfig
from src.errors import InputError
from src.stimuli import group_sampling, pictures
from src.stimuli.csvs import filled, read_csv, unique
from src.stimuli.safe_paths import no_link_out, paths_below, posix_paths


def load(cfg: FolderConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """All faces that the csv names.

    Args:
        cfg: see conf/faces/folder.yaml. Two columns in `group` are race and gender.

    Returns:
        Columns `id` (the picture's path below `root`), `group`, with two columns also `race` and
        `gender`, `path`, `sha256`, `conversions`; rows of the csv; what was left out.

    Raises:
        InputError: files are missing or unreadable, a cell is empty, a path leaves the folder, or a
            group has fewer faces than `per_group`; or a picture occurs twice.
    """
    if not cfg.group:
        raise InputError("faces.group=[]: name the columns of the csv that make up a group's name.")
    root, file = Path(cfg.root), cfg.file
    path = root / cfg.csv
    remedy = "Set faces.root to the folder of the pictures, and faces.csv to a file below it or a full path."
    no_link_out([path], root, "faces.root")
    columns = (
        f"Set faces.file (now {file}) to the column of the pictures' paths and faces.group to those of the "
        "groups"
    )
    lacking = f"{columns}, or correct the header (commas part columns)."
    rows = read_csv(path, [file, *cfg.group], remedy, lacking=lacking)
    for column in (file, *cfg.group):
        filled(rows, column, path)
    paths_below(rows, file, path, "faces.root")
    rows[file], notes = posix_paths(rows[file], root, path)
    unique(rows, file, path)
    groups_of_rows = rows[list(cfg.group)].agg(" ".join, axis=1)
    frame = pd.DataFrame({"id": rows[file], "group": groups_of_rows, "row": rows["row"]})
    if len(cfg.group) == 2:
        frame["race"], frame["gender"] = rows[cfg.group[0]], rows[cfg.group[1]]
    frame["path"] = [str(root / name) for name in rows[file]]
    groups = sorted(set(frame["group"]))
    nowhere = f"Set faces.root to the folder that the paths begin in. {columns}."
    frame, absent = pictures.present(frame, path, root, "faces.root", nowhere)
    if lost := [name for name in groups if name not in set(frame["group"])]:
        raise InputError(
            f"{path}: groups without a face, as none of their pictures is there: {', '.join(lost)}. Put the "
            "pictures below faces.root, or delete the rows."
        )
    frame, left = group_sampling.sampled(frame, groups, cfg, path)
    return pictures.hashed(frame), len(rows), notes + absent + left
