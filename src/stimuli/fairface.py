"""FairFace (Kärkkäinen & Joo 2021): faces labelled by annotators with race, gender and age."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from src.configs import FairFaceConfig
from src.stimuli import group_sampling, pictures
from src.stimuli.csvs import PUBLISHED, read_csv, unique
from src.stimuli.safe_paths import no_link_out, paths_below, posix_paths

NOWHERE = "Put the pictures beside the csv as the publisher's archive has them, or set faces.root."


def load(cfg: FairFaceConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """Faces of the chosen groups.

    Args:
        cfg: see conf/faces/fairface.yaml. `csv` has the columns `file` (below `root`), `age`, `gender`,
            `race`.

    Returns:
        Columns `id` (the file), `group` ("Black Women"), `race`, `gender`, `age`, `path`,
        `sha256`, `conversions`; rows of the csv; what was left out.

    Raises:
        InputError: files are missing or unreadable, a chosen value does not occur, or a group has
            fewer faces than `per_group`; or a picture occurs twice.
    """
    root = Path(cfg.root)
    path = root / cfg.csv
    remedy = (
        "Set dataset.root to the folder that holds fairface/, or faces.root to the one of the csv. "
        "make data says how to get it."
    )
    no_link_out([path], root, "faces.root")
    lacking = f"{PUBLISHED} For pictures of your own choose faces=folder."
    rows = read_csv(path, ["file", "age", "gender", "race"], remedy, lacking=lacking)
    paths_below(rows, "file", path, "faces.root")
    rows["file"], notes = posix_paths(rows["file"], root, path)
    unique(rows, "file", path)
    wanted = None
    if cfg.ages is not None:
        wanted = group_sampling.named(rows, "age", {age: [age] for age in cfg.ages}, path).notna()
    chosen, others = group_sampling.grouped(rows, cfg, path, "age", wanted)
    frame = chosen.assign(id=chosen["file"], path=[str(root / name) for name in chosen["file"]])
    frame, absent = pictures.present(
        frame[["id", "group", "race", "gender", "age", "path", "row"]], path, root, "faces.root", NOWHERE
    )
    frame, left = group_sampling.sampled(frame, group_sampling.group_names(cfg.races, cfg.genders), cfg, path)
    return pictures.hashed(frame), len(rows), notes + others + absent + left
