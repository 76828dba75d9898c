"""FairFace (Kärkkäinen & Joo 2021): faces labelled by annotators with race, gender and age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from src.stimuli import group_sampling, pictures
from src.stimuli.csvs import PUBLISHED, read_csv, unique
from src.stimuli.duplicates import distinct
from src.stimuli.safe_paths import no_link_out, paths_below, posix_paths

NOWHERE = "Put the pictures beside the csv as the publisher's archive has them, or set faces.root."


def load(
    root: Path,
    csv: str,
    *,
    races: Mapping[str, Sequence[str]],
    genders: Mapping[str, Sequence[str]],
    ages: Sequence[str] | None,
    per_group: int | None,
    seed: int,
    duplicates: str = "stop",
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
        duplicates: see `src.stimuli.duplicates.distinct`; done before the draw.

    Returns:
        Columns `id` (the file), `group` ("Black Women"), `race`, `gender`, `age`, `path`,
        `sha256`, `conversions`; rows of the csv; what was left out.

    Raises:
        InputError: files are missing or unreadable, a chosen value does not occur, or a group has
            fewer faces than `per_group`; or a picture occurs twice.
    """
    path = root / csv
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
    if ages is not None:
        wanted = group_sampling.named(rows, "age", {age: [age] for age in ages}, path).notna()
    chosen, others = group_sampling.grouped(
        rows, path, races=races, genders=genders, third="age", wanted=wanted
    )
    frame = chosen.assign(id=chosen["file"], path=[str(root / name) for name in chosen["file"]])
    frame, absent = pictures.present(
        frame[["id", "group", "race", "gender", "age", "path", "row"]], path, root, "faces.root", NOWHERE
    )
    frame, copies = distinct(frame, path, duplicates, "faces")
    frame, left = group_sampling.draw(
        frame, group_sampling.group_names(races, genders), per_group, seed, path
    )
    frame["sha256"], frame["conversions"] = pictures.hashes([Path(item) for item in frame["path"]])
    return frame, len(rows), notes + others + absent + copies + left
