"""Landmarks of faces, as they are published for CFD (Singh, Gambrell & Correll), or in that form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from src.errors import InputError, brief
from src.stimuli.csvs import read_csv
from src.stimuli.decoding import upright_size
from src.stimuli.morphs.standard import carried

SUFFIXES = (".tem", ".txt")
REMEDY = (
    "Set faces.landmarks to a folder of one .tem or .txt file per face, or to a csv with the columns "
    "fname, x, y."
)


def landmarks(path: Path, parents: Mapping[str, Path], size: int) -> dict[str, np.ndarray]:
    """Landmarks of each parent, carried into its standardised form.

    Args:
        path: a folder of WebMorph's `.tem` files (number of points, then x and y of each; lines that
            begin with `#`, and what follows the points, are ignored) or `.txt` files (the same, or x and y
            alone), or a csv (`fname`, `x`, `y`, one row per point). A file is called like the
            picture; so is an `fname`, or it is the parent's id.
        parents: id -> picture, in whose pixels, turned upright as its EXIF says, the points are, the first
            being (0, 0).
        size: edge of the standardised form, in pixels.

    Returns:
        Id -> [P, 2], with P the same for all.

    Raises:
        InputError: there is no such file, it cannot be read, or parents have no points, another number
            of them than the first, or points outside their picture; all are counted.
    """
    found = _from_csv(path) if path.is_file() else _from_folder(path)
    keys = {name: _key(found, name, picture) for name, picture in parents.items()}
    points = {name: found[key] for name, key in keys.items() if key}
    absent = [name for name in parents if name not in points]
    _refuse(path, absent, len(parents), "have no landmarks", "Add them, or take other parents.")
    shared = [name for name, key in keys.items() if list(keys.values()).count(key) > 1]
    _refuse(path, shared, len(parents), "share their file's name", "Call the landmarks by the faces' ids.")
    usual = len(next(iter(points.values())))
    other = [f"{name} ({len(own)})" for name, own in points.items() if len(own) != usual]
    _refuse(path, other, len(parents), f"have not {usual} points like the first", "Correct them.")
    sizes = {name: upright_size(picture) for name, picture in parents.items()}
    outside = [
        name
        for name, own in points.items()
        if (own < -0.5).any() or (own > np.array(sizes[name]) - 0.5).any()
    ]
    remedy = "Points are x and y in pixels of the picture itself, not of a smaller copy. Correct them."
    _refuse(path, outside, len(parents), "have points outside their picture", remedy)
    return {name: carried(own, *sizes[name], size) for name, own in points.items()}


def _refuse(path: Path, names: list[str], of: int, what: str, remedy: str) -> None:
    if names:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise InputError(f"{path}: {len(names)} of {of} parents {what}: {shown}. {remedy}")


def _from_csv(path: Path) -> dict[str, np.ndarray]:
    rows = read_csv(path, ["fname", "x", "y"], REMEDY, lacking=REMEDY)
    for column in ("x", "y"):
        numbers = pd.to_numeric(rows[column], errors="coerce")
        bad = rows[~np.isfinite(numbers)]
        if len(bad):
            raise InputError(
                f"{path}, row {bad['row'].iloc[0]}: {column} {brief(bad[column].iloc[0])!r} is not a number. "
                "Correct or delete the row."
            )
        rows[column] = numbers.astype(float)
    faces = rows.groupby("fname", sort=False)
    return {str(name).removesuffix(".tem"): face[["x", "y"]].to_numpy() for name, face in faces}


def _from_folder(path: Path) -> dict[str, np.ndarray]:
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder. {REMEDY}")
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"{path}: no .tem or .txt file in it. {REMEDY}")
    found: dict[str, np.ndarray] = {}
    for file in files:
        if file.stem in found:
            raise InputError(f"{file}: there is another file of this name below {path}. Delete one of them.")
        found[file.stem] = _points(file)
    return found


def _points(file: Path) -> np.ndarray:
    # One published file ends in bytes that are no text, others in the picture's name: after the points.
    lines = file.read_text(encoding="latin-1").splitlines()
    rows = [line.replace(",", " ").split() for line in lines if line.strip() and line.lstrip()[0] != "#"]
    try:
        if rows and len(rows[0]) == 1:
            count = int(rows[0][0])
            if count < 1:
                raise ValueError(f"the number of points is {count}")
            if len(rows) <= count:
                raise ValueError(f"{len(rows) - 1} lines after the number {count}")
            rows = rows[1 : 1 + count]
        points = np.array([[float(cell) for cell in row] for row in rows])
        if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
            raise ValueError("no list of x and y")
    except ValueError as error:
        raise InputError(
            f"{file}: not landmarks ({brief(str(error))}). Write one line per point, x and y in pixels; "
            "the first line may tell their number."
        ) from None
    return points


def _key(found: Mapping[str, np.ndarray], name: str, picture: Path) -> str:
    # CFD's templates are called CFD_WM-257-161-N where its pictures are called CFD-WM-257-161-N.
    published = picture.stem.replace("CFD-", "CFD_", 1)
    return next((key for key in (name, picture.name, picture.stem, published) if key in found), "")
