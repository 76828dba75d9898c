"""Chicago Face Database (Ma, Correll & Wittenbrink 2015), version 3.0: photographs in a studio.

The extensions of the database lie beside it: multiracial faces (Ma, Kantner & Wittenbrink 2020) and
faces from India (Lakshmi et al. 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from src.errors import InputError
from src.stimuli import filenames, group_sampling
from src.stimuli.csvs import read_csv, unique
from src.stimuli.duplicates import distinct
from src.stimuli.pictures import hashes
from src.stimuli.safe_paths import no_link_out

EXAMPLE = "CFD-BF-001-025-N.jpg"
# Race, gender, number of the person, number of the picture, a count where the Indian set has two
# pictures of one expression, expression.
NAME = (
    r"(?P<name>CFD-(?P<person>(?P<race>[ABLWMI])(?P<gender>[FM])-\d+)-\d+(-\d+)?"
    r"-(?P<expression>N|A|HC|HO|F))"
)
AGES = ("AgeSelf", "AgeRated")
OLDEST = 130


def load(
    root: Path,
    pictures: Sequence[str],
    norming: str | None,
    *,
    races: Mapping[str, Sequence[str]],
    genders: Mapping[str, Sequence[str]],
    expressions: Sequence[str],
    per_group: int | None,
    seed: int,
    duplicates: str = "stop",
) -> tuple[pd.DataFrame, int, list[str]]:
    """Faces of the chosen groups with the chosen expressions.

    Args:
        root: folder of the database, which holds `Images/`.
        pictures: folders of the pictures, below `root`; their folders are searched too.
        norming: a sheet of the norming workbook saved as csv, below `root`; its ages join the table.
        races: name in the group -> letters: A, B, L (Latino), W, M (multiracial), I (India).
        genders: name in the group -> letters: F, M.
        expressions: N (neutral), A (angry), HC and HO (happy, mouth closed or open), F (afraid).
        per_group: draw so many of each group, without replacement; None takes all.
        seed: of the draw.
        duplicates: see `src.stimuli.duplicates.distinct`; done before the draw.

    Returns:
        Columns `id` (the file's name without .jpg), `group` ("Black Women"), `race`, `gender`,
        `expression`, `path`, `sha256`, `conversions`, with `norming` also `age` in years; how many
        pictures there are; what was left out.

    Raises:
        InputError: files are missing or unreadable, a chosen letter does not occur, or a group has
            fewer faces than `per_group`; or a picture occurs twice.
    """
    remedy = (
        "Set dataset.root to the folder that holds cfd/, faces.root to the one that holds Images/, or "
        "faces.pictures to the folders of the pictures below it. make data says how to get them; for "
        "pictures of your own choose faces=folder."
    )
    rows, found, notes = filenames.read([root / folder for folder in pictures], root, NAME, EXAMPLE, remedy)
    wanted = group_sampling.named(rows, "expression", {name: [name] for name in expressions}, root).notna()
    chosen, others = group_sampling.grouped(
        rows, root, races=races, genders=genders, third="expression", wanted=wanted
    )
    frame, copies = distinct(chosen, root, duplicates, "faces")
    frame, left = group_sampling.draw(
        frame, group_sampling.group_names(races, genders), per_group, seed, root
    )
    notes += others + copies + left + _repeated(frame)
    if norming is not None:
        no_link_out([root / norming], root, "faces.root")
        frame["age"], said = _ages(frame["person"], root / norming)
        notes += said
    frame["sha256"], frame["conversions"] = hashes([Path(item) for item in frame["path"]])
    return frame.drop(columns="person"), found, notes


def _repeated(frame: pd.DataFrame) -> list[str]:
    sizes = frame.groupby(["person", "expression"]).size()
    several = set(sizes[sizes > 1].index.get_level_values("person"))
    return [f"{len(several)} people have more than one picture of an expression, all kept"] if several else []


def _ages(person: pd.Series, path: Path) -> tuple[pd.Series, list[str]]:
    """Age of each person, in years, null where there is none."""
    remedy = "Save a sheet of the norming workbook as csv and name it in faces.norming, or leave that out."
    rows = read_csv(path, ["Model"], remedy, optional=AGES, lacking=remedy)
    # The Indian sheets write IF601-519 for the person whose pictures are named IF-601.
    parts = rows["Model"].str.extract(r"^([A-Z][FM])-?(\d+)")
    rows["person"] = parts[0] + "-" + parts[1]
    rows = rows[rows["person"].notna()]
    read = {name: pd.to_numeric(rows[name], errors="coerce") for name in AGES if name in rows}
    ages = {name: values.where(values.between(0, OLDEST)) for name, values in read.items()}
    filled = [name for name, values in ages.items() if values.notna().any()]
    if not filled:
        raise InputError(
            f"{path}: no age in {' or '.join(AGES)}. Name another csv in faces.norming, or leave that out."
        )
    unique(rows, "person", path)
    age = person.map(dict(zip(rows["person"], ages[filled[0]], strict=True)))
    notes = [f"age is {filled[0]} of {path.name}"]
    without = sorted(set(person[age.isna()]))
    if without:
        notes.append(f"{len(without)} people have no age in {path.name}, first {without[0]}")
    return age, notes
