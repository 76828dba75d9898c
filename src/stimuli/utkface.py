"""UTKFace (Zhang, Song & Qi 2017): faces from the web; age, gender and race stand in the name."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from src.configs import UtkFaceConfig
from src.errors import InputError
from src.stimuli import filenames, group_sampling
from src.stimuli.pictures import hashed

EXAMPLE = "25_0_1_20170116174525125.jpg"
# Some published names have a blank or a stray suffix after the time, which tells nothing; those
# that lack gender or race do not fit.
NAME = r"(?P<name>(?P<age>\d{1,3})_(?P<gender>[01])_(?P<race>[0-4])_\d+)\D*"


def load(cfg: UtkFaceConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """Faces of the chosen groups.

    Args:
        cfg: see conf/faces/utkface.yaml. The folders in `root` are searched too.

    Returns:
        Columns `id` (the name up to the time), `group` ("Black Women"), `race`, `gender`, `age` in
        years, `path`, `sha256`, `conversions`; how many pictures there are; what was left out.

    Raises:
        InputError: files are missing or unreadable, `ages` are no span, a chosen code does not
            occur, or a group has fewer faces than `per_group`; or a picture occurs twice.
    """
    root, ages = Path(cfg.root), cfg.ages
    if ages is not None and (len(ages) != 2 or ages[0] > ages[1]):
        raise InputError(f"faces.ages={list(ages)}: must be youngest and oldest, as in [20,29].")
    remedy = (
        "Set dataset.root to the folder that holds utkface/, or faces.root to the one of the pictures. "
        "make data says how to get it; for pictures of your own choose faces=folder."
    )
    rows, found, notes = filenames.read([root], root, NAME, EXAMPLE, remedy)
    rows["age"] = rows["age"].astype(int)
    wanted = None if ages is None else rows["age"].between(ages[0], ages[1])
    chosen, others = group_sampling.grouped(rows, cfg, root, "age", wanted)
    frame, left = group_sampling.sampled(
        chosen, group_sampling.group_names(cfg.races, cfg.genders), cfg, root
    )
    return hashed(frame), found, notes + others + left
