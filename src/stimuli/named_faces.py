"""Load faces whose file names encode their labels."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from src.configs import CfdConfig, UtkFaceConfig
from src.errors import InputError, brief, first_few
from src.stimuli import group_sampling
from src.stimuli.csvs import check_unique, read_csv
from src.stimuli.pictures import add_hashes
from src.stimuli.safe_paths import refuse_links_out
from src.stimuli.safe_yaml import is_text
from src.stimuli.table import LoadedStimuli

SUFFIXES = (".jpg", ".jpeg", ".png")
CFD_EXAMPLE = "CFD-BF-001-025-N.jpg"
# Race, gender, number of the person, number of the picture, a count (only if the Indian set has two pictures
# of an expression), and expression.
CFD_NAME = (
    r"(?P<name>CFD-(?P<person>(?P<race>[ABLWMI])(?P<gender>[FM])-\d+)-\d+(-\d+)?"
    r"-(?P<expression>N|A|HC|HO|F))"
)
AGES = ("AgeSelf", "AgeRated")  # columns of ages in the norming data; the first with any age is used
MAX_AGE = 130  # years; higher ages are mistakes
UTKFACE_EXAMPLE = "25_0_1_20170116174525125.jpg"
# Age, gender, race, and date and time. Some published names end in a meaningless blank or suffix; names that
# lack gender or race do not match.
UTKFACE_NAME = r"(?P<name>(?P<age>\d{1,3})_(?P<gender>[01])_(?P<race>[0-4])_\d+)\D*"


def load_cfd(cfg: CfdConfig) -> LoadedStimuli:
    """Load the Chicago Face Database (Ma, Correll & Wittenbrink 2015), version 3.0: studio photographs.

    Its extensions are in the same folder: multiracial faces (Ma, Kantner & Wittenbrink 2020) and faces from
    India (Lakshmi et al. 2020). Only the configured groups and expressions are loaded; `norming` adds ages.
    """
    remedy = (
        "Set dataset.root to the folder that contains cfd/, faces.root to the one that contains Images/, or "
        "faces.pictures to folders of pictures below it (see make data). For other pictures use faces=folder."
    )
    root = Path(cfg.root)
    folders = [root / folder for folder in cfg.pictures]
    rows, picture_count, notes = _read_labels(folders, root, CFD_NAME, CFD_EXAMPLE, remedy)
    selected_rows, group_notes = group_sampling.select_groups(rows, cfg, root, "expression", cfg.expressions)
    frame, sample_notes = group_sampling.sample_groups(selected_rows, cfg, root)
    notes += group_notes + sample_notes
    n_people = frame["person"][frame.duplicated(["person", "expression"])].nunique()
    if n_people:
        notes.append(f"{n_people} people have more than one picture of an expression; all are used")
    if cfg.norming is not None:
        refuse_links_out([root / cfg.norming], root, "faces.root")
        frame["age"], age_notes = _read_ages(frame["person"], root / cfg.norming)
        notes += age_notes
    return add_hashes(frame).rename(columns={"person": "cluster"}), picture_count, notes


def _read_ages(people: pd.Series, path: Path) -> tuple[pd.Series, list[str]]:
    """Read the age of each person in years (null if unknown), with notes."""
    remedy = "Save a sheet of the norming workbook as csv and set faces.norming to it, or to null."
    rows = read_csv(path, ["Model"], remedy, optional=AGES, header_remedy=remedy)
    # The Indian sheets write IF601-519 for the person whose pictures are named IF-601.
    codes = rows["Model"].str.extract(r"^([A-Z][FM])-?(\d+)")
    rows["person"] = codes[0] + "-" + codes[1]
    rows = rows[rows["person"].notna()]
    numbers = {name: pd.to_numeric(rows[name], errors="coerce") for name in AGES if name in rows}
    ages = {name: values.where(values.between(0, MAX_AGE)) for name, values in numbers.items()}
    age_columns = [name for name, values in ages.items() if values.notna().any()]
    if not age_columns:
        raise InputError(
            f"{path}: no age in {' or '.join(AGES)}. Set faces.norming to another csv, or to null."
        )
    check_unique(rows, "person", path)
    age = people.map(dict(zip(rows["person"], ages[age_columns[0]], strict=True)))
    notes = [f"age is {age_columns[0]} of {path.name}"]
    without_age = sorted(set(people[age.isna()]))
    if without_age:
        notes.append(f"{len(without_age)} people have no age in {path.name}, first {without_age[0]}")
    return age, notes


def load_utkface(cfg: UtkFaceConfig) -> LoadedStimuli:
    """Load UTKFace (Zhang, Song & Qi 2017): web faces whose file names give age, gender, race.

    Only the configured groups are loaded and, if `ages` is set, only faces of these ages in years.
    """
    root, ages = Path(cfg.root), cfg.ages
    if ages is not None and (len(ages) != 2 or ages[0] > ages[1]):
        raise InputError(
            f"faces.ages={list(ages)}: expected the youngest and the oldest age, such as [20,29]."
        )
    remedy = (
        "Set dataset.root to the folder that contains utkface/, or faces.root to the folder "
        "of the pictures (see make data). For other pictures use faces=folder."
    )
    rows, picture_count, notes = _read_labels([root], root, UTKFACE_NAME, UTKFACE_EXAMPLE, remedy)
    rows["age"] = rows["age"].astype(int)
    ages_in_range = None if ages is None else {*rows["age"][rows["age"].between(ages[0], ages[1])]}
    selected_rows, group_notes = group_sampling.select_groups(rows, cfg, root, "age", ages_in_range)
    frame, sample_notes = group_sampling.sample_groups(selected_rows, cfg, root)
    return add_hashes(frame), picture_count, notes + group_notes + sample_notes


def _read_labels(
    folders: Sequence[Path], root: Path, pattern: str, example: str, remedy: str
) -> tuple[pd.DataFrame, int, list[str]]:
    """Read labels from the file names of pictures in folders and their subfolders.

    `pattern` matches a name without its last suffix. Its regex group `name` becomes the column `id`, and
    every other regex group a column. Returns the matching pictures sorted by `path`, the number of all
    pictures, and notes on other files.
    """
    files, other_files = _list_pictures(folders, root, remedy)
    matches = [(path, re.fullmatch(pattern, path.stem, re.ASCII)) for path in files]
    if bad_path := next((str(path) for path, match in matches if match and not is_text(str(path))), ""):
        raise InputError(f"{brief(bad_path, 1000)}: the name is not UTF-8. Rename the picture.")
    labels = [{"path": str(path), **match.groupdict()} for path, match in matches if match]
    other_names = [path.name for path, match in matches if match is None]
    folder_names = ", ".join(str(folder) for folder in folders)
    if not labels:
        content = f"{len(files)} pictures, first {brief(files[0].name)!r}" if files else "no picture"
        raise InputError(f"{folder_names}: no picture is named like {example}; found {content}. {remedy}")
    frame = pd.DataFrame(labels).rename(columns={"name": "id"})
    repeats = frame[frame["id"].duplicated()]
    if len(repeats):
        first = frame["path"][frame["id"] == repeats["id"].iloc[0]].iloc[0]
        raise InputError(
            f"{repeats['path'].iloc[0]}: the picture {repeats['id'].iloc[0]} is already at {first} "
            f"({len(repeats)} such pictures). Delete the copies."
        )
    notes = []
    if other_files:
        notes.append(f"{len(other_files)} files are not pictures ({first_few(other_files, 3)})")
    if other_names:
        notes.append(
            f"{len(other_names)} pictures are not named like {example} ({first_few(other_names, 3)})"
        )
    return frame, len(files), notes


def _list_pictures(folders: Sequence[Path], root: Path, remedy: str) -> tuple[list[Path], list[str]]:
    """Return the pictures in folders and their subfolders, sorted, and the names of all other files."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder. {remedy}")
    paths = {path for folder in folders for path in folder.rglob("*")}
    refuse_links_out([*folders, *paths], root, "faces.root")
    # Links to folders are not followed: refuse them unless their target is in a searched folder.
    real_folders = [Path(os.path.realpath(folder)) for folder in folders]
    for link in sorted(path for path in paths if path.is_symlink() and path.is_dir()):
        if not any(Path(os.path.realpath(link)).is_relative_to(folder) for folder in real_folders):
            raise InputError(f"{link}: links to folders are not followed. Replace the link by the folder.")
    files = sorted(path for path in paths if path.is_file())
    # Archives packed on a Mac contain a metadata file `._NAME` for each picture NAME.
    pictures = [path for path in files if path.suffix.lower() in SUFFIXES and path.name[0] != "."]
    return pictures, [path.name for path in files if path not in set(pictures)]
