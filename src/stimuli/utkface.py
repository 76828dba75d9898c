"""UTKFace (Zhang, Song & Qi 2017): faces from the web; age, gender and race stand in the name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from src.errors import InputError
from src.stimuli import filenames, group_sampling, pictures
from src.stimuli.duplicates import distinct

EXAMPLE = "25_0_1_20170116174525125.jpg"
# Some published names have a blank or a stray suffix after the time, which tells nothing; those
# that lack gender or race do not fit.
NAME = r"(?P<name>(?P<age>\d{1,3})_(?P<gender>[01])_(?P<race>[0-4])_\d+)\D*"


def load(
    root: Path,
    *,
    races: Mapping[str, Sequence[str]],
    genders: Mapping[str, Sequence[str]],
    ages: Sequence[int] | None,
    per_group: int | None,
    seed: int,
    duplicates: str = "stop",
) -> tuple[pd.DataFrame, int, list[str]]:
    """Faces of the chosen groups.

    Args:
        root: folder of the pictures; its folders are searched too.
        races: name in the group -> codes: 0 White, 1 Black, 2 Asian, 3 Indian, 4 others.
        genders: name in the group -> codes: 0 male, 1 female.
        ages: youngest and oldest, in years, both included; None takes all.
        per_group: draw so many of each group, without replacement; None takes all.
        seed: of the draw.
        duplicates: see `src.stimuli.duplicates.distinct`; done before the draw.

    Returns:
        Columns `id` (the name up to the time), `group` ("Black Women"), `race`, `gender`, `age` in
        years, `path`, `sha256`, `conversions`; how many pictures there are; what was left out.

    Raises:
        InputError: files are missing or unreadable, `ages` are no span, a chosen code does not
            occur, or a group has fewer faces than `per_group`; or a picture occurs twice.
    """
    if ages is not None and (len(ages) != 2 or ages[0] > ages[1]):
        raise InputError(f"faces.ages={list(ages)}: must be youngest and oldest, as in [20,29].")
    remedy = (
        "Set dataset.root to the folder that holds utkface/, or faces.root to the one of the pictures. "
        "make data says how to get it; for pictures of your own choose faces=folder."
    )
    rows, found, notes = filenames.read([root], root, NAME, EXAMPLE, remedy)
    rows["age"] = rows["age"].astype(int)
    wanted = None if ages is None else rows["age"].between(ages[0], ages[1])
    chosen, others = group_sampling.grouped(
        rows, root, races=races, genders=genders, third="age", wanted=wanted
    )
    frame, copies = distinct(chosen, root, duplicates, "faces")
    frame, left = group_sampling.draw(
        frame, group_sampling.group_names(races, genders), per_group, seed, root
    )
    frame["sha256"], frame["conversions"] = pictures.hashes([Path(item) for item in frame["path"]])
    return frame, found, notes + others + copies + left
