"""Chicago Face Database (Ma, Correll & Wittenbrink 2015), version 3.0: photographs in a studio.

The extensions of the database lie beside it: multiracial faces (Ma, Kantner & Wittenbrink 2020) and
faces from India (Lakshmi et al. 2020).
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from src.configs import CfdConfig
from src.errors import InputError
from src.stimuli import filenames, group_sampling
from src.stimuli.csvs import read_csv, unique
from src.stimuli.pictures import hashed
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


def load(cfg: CfdConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """Faces of the chosen groups with the chosen expressions.

    Args:
        cfg: see conf/faces/cfd.yaml. The folders in `pictures` are searched too.

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
    root = Path(cfg.root)
    rows, found, notes = filenames.read(
        [root / folder for folder in cfg.pictures], root, NAME, EXAMPLE, remedy
    )
    expressions = {name: [name] for name in cfg.expressions}
    wanted = group_sampling.named(rows, "expression", expressions, root).notna()
    chosen, others = group_sampling.grouped(rows, cfg, root, "expression", wanted)
    frame, left = group_sampling.sampled(
        chosen, group_sampling.group_names(cfg.races, cfg.genders), cfg, root
    )
    notes += others + left + _repeated(frame)
    if cfg.norming is not None:
        no_link_out([root / cfg.norming], root, "faces.root")
        frame["age"], said = _ages(frame["person"], root / cfg.norming)
        notes += said
    return hashed(frame).drop(columns="person"), found, notes


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
