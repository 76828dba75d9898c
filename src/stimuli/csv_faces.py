"""Load faces that a csv assigns to groups."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from src.configs import FairFaceConfig, FolderConfig
from src.errors import InputError
from src.stimuli import group_sampling, pictures
from src.stimuli.csvs import HEADER_REMEDY, check_filled, check_unique, read_csv
from src.stimuli.safe_paths import check_paths, posix_paths, refuse_links_out
from src.stimuli.table import Loaded

ABSENT_REMEDY = "Put the pictures next to the csv as the publisher's archive has them, or set faces.root."


def fairface(cfg: FairFaceConfig) -> Loaded:
    """Load FairFace (Kärkkäinen & Joo 2021): faces that annotators labelled with race, gender and age.

    Only chosen groups, and chosen ages if there are any, are loaded. The csv has the columns `file` (below
    `root`), `age`, `gender` and `race`.
    """
    root = Path(cfg.root)
    path = root / cfg.csv
    remedy = "Set dataset.root to the folder of fairface/, or faces.root to that of the csv (see make data)."
    header_remedy = f"{HEADER_REMEDY} For pictures of your own choose faces=folder."
    rows, notes = _read_listing(path, root, ["file", "age", "gender", "race"], remedy, header_remedy)
    wanted = None
    if cfg.ages is not None:
        wanted = group_sampling.map_values(rows, "age", {age: [age] for age in cfg.ages}, path).notna()
    chosen, group_notes = group_sampling.select_groups(rows, cfg, path, "age", wanted)
    frame = chosen.assign(id=chosen["file"], path=[str(root / name) for name in chosen["file"]])
    frame = frame[["id", "group", "race", "gender", "age", "path", "row"]]
    frame, absent_notes = pictures.drop_absent(frame, path, root, "faces.root", ABSENT_REMEDY)
    groups = group_sampling.group_names(cfg.races, cfg.genders)
    frame, sample_notes = group_sampling.sample_groups(frame, groups, cfg, path)
    return pictures.add_hashes(frame), len(rows), notes + group_notes + absent_notes + sample_notes


def folder(cfg: FolderConfig) -> Loaded:
    """Load a folder of pictures; if `group` has two columns of the csv, they are race and gender."""
    if not cfg.group:
        raise InputError("faces.group=[]: name the columns of the csv that make up a group's name.")
    root, file_column = Path(cfg.root), cfg.file
    path = root / cfg.csv
    remedy = "Set faces.root to the folder of the pictures, and faces.csv to a file below it or a full path."
    set_columns = f"Set faces.file (now {cfg.file}) to the column of paths, faces.group to those of groups"
    header_remedy = f"{set_columns}, or correct the header (commas separate columns)."
    rows, notes = _read_listing(path, root, [file_column, *cfg.group], remedy, header_remedy, complete=True)
    names = rows[list(cfg.group)].agg(" ".join, axis=1)
    frame = pd.DataFrame({"id": rows[file_column], "group": names, "row": rows["row"]})
    if len(cfg.group) == 2:
        frame["race"], frame["gender"] = rows[cfg.group[0]], rows[cfg.group[1]]
    frame["path"] = [str(root / name) for name in rows[file_column]]
    groups = sorted(set(frame["group"]))
    absent_remedy = f"Set faces.root to the folder that the paths begin in. {set_columns}."
    frame, absent_notes = pictures.drop_absent(frame, path, root, "faces.root", absent_remedy)
    if empty := [name for name in groups if name not in set(frame["group"])]:
        raise InputError(f"{path}: groups without a face: {', '.join(empty)}. Add some, or delete the rows.")
    frame, sample_notes = group_sampling.sample_groups(frame, groups, cfg, path)
    return pictures.add_hashes(frame), len(rows), notes + absent_notes + sample_notes


def _read_listing(
    path: Path, root: Path, columns: Sequence[str], remedy: str, header_remedy: str, *, complete: bool = False
) -> tuple[pd.DataFrame, list[str]]:
    """Read columns of a csv, the first with paths below `faces.root`; note the backslashes converted."""
    refuse_links_out([path], root, "faces.root")
    rows, file_column = read_csv(path, columns, remedy, header_remedy=header_remedy), columns[0]
    for column in columns if complete else ():
        check_filled(rows, column, path)
    check_paths(rows, file_column, path, "faces.root")
    rows[file_column], notes = posix_paths(rows[file_column], root, path)
    check_unique(rows, file_column, path)
    return rows, notes
