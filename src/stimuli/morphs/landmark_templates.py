"""Load landmarks of faces in the format published for CFD (Singh, Gambrell & Correll)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from src.errors import InputError, brief, first_few
from src.stimuli.csvs import read_csv
from src.stimuli.pictures import read_upright_size, standardise_points

SUFFIXES = (".tem", ".txt")
REMEDY = "Set faces.landmarks to a folder of a .tem or .txt file per face, or to a csv of fname, x, y."


def load_landmarks(path: Path, parents: Mapping[str, Path], size: int) -> dict[str, np.ndarray]:
    """Return id -> landmarks [P, 2] of each parent, in pixels of its standardised form of width `size`.

    `path` is one of:

    - a folder of WebMorph's `.tem` files: the number of points, then a line with x and y per point; lines
      that begin with `#` and lines after the points are ignored.
    - a folder of `.txt` files: the same, or only the lines with x and y.
    - a csv with the columns `fname`, `x` and `y`, and one row per point.

    The name of a file (without its suffix) or an `fname` is the parent's id, or the name of its picture with
    or without suffix; `CFD_` may replace `CFD-`. Points are in pixels of the upright picture, whose first
    pixel is (0, 0).

    Args:
        path: landmarks.
        parents: id -> picture.
        size: width and height of the standardised pictures.

    Raises:
        InputError: the path is missing or unreadable; or parents lack landmarks, share them, differ in the
            number of points, or have points outside their picture. The message gives the number of parents
            with this problem.
    """

    def refuse(names: list[str], problem: str, remedy: str) -> None:
        if names:
            counts = f"{len(names)} of {len(parents)} parents"
            raise InputError(f"{path}: {counts} {problem}: {first_few(names)}. {remedy}")

    points_by_key = _read_csv_points(path) if path.is_file() else _read_folder(path)
    keys = {}
    for name, picture in parents.items():
        # CFD's template CFD_WM-257-161-N belongs to its picture CFD-WM-257-161-N.
        candidates = (name, picture.name, picture.stem, picture.stem.replace("CFD-", "CFD_", 1))
        keys[name] = next((key for key in candidates if key in points_by_key), "")
    points = {name: points_by_key[key] for name, key in keys.items() if key}
    without_points = [name for name in parents if name not in points]
    refuse(without_points, "have no landmarks", "Add them, or choose other parents.")
    with_shared_points = [name for name, key in keys.items() if list(keys.values()).count(key) > 1]
    refuse(with_shared_points, "share landmarks", "Name the landmark files after the faces' ids.")
    count = len(next(iter(points.values())))
    with_other_counts = [f"{name} ({len(face)})" for name, face in points.items() if len(face) != count]
    refuse(with_other_counts, f"do not have {count} points like the first", "Correct them.")
    sizes = {name: read_upright_size(picture) for name, picture in parents.items()}
    with_points_outside = [
        name
        for name, face in points.items()
        if (face < -0.5).any() or (face > np.array(sizes[name]) - 0.5).any()
    ]
    remedy = "Points are x and y in pixels of the picture itself, not of a smaller copy. Correct them."
    refuse(with_points_outside, "have points outside their picture", remedy)
    return {name: standardise_points(face, *sizes[name], size) for name, face in points.items()}


def _read_csv_points(path: Path) -> dict[str, np.ndarray]:
    """Return `fname` -> points [P, 2] of a csv."""
    rows = read_csv(path, ["fname", "x", "y"], REMEDY, header_remedy=REMEDY)
    for column in ("x", "y"):
        numbers = pd.to_numeric(rows[column], errors="coerce")
        bad_rows = rows[~np.isfinite(numbers)]
        if len(bad_rows):
            raise InputError(
                f"{path}, row {bad_rows['row'].iloc[0]}: {column} {brief(bad_rows[column].iloc[0])!r} is "
                "not a number. Correct or delete the row."
            )
        rows[column] = numbers.astype(float)
    faces = rows.groupby("fname", sort=False)
    return {str(name).removesuffix(".tem"): face[["x", "y"]].to_numpy() for name, face in faces}


def _read_folder(path: Path) -> dict[str, np.ndarray]:
    """Return name of a landmark file (without suffix) -> points [P, 2], for the files in a folder."""
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder. {REMEDY}")
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"{path}: no .tem or .txt file in it. {REMEDY}")
    points_by_key: dict[str, np.ndarray] = {}
    for file in files:
        if file.stem in points_by_key:
            raise InputError(f"{file}: there is another file of this name in {path}. Delete one of them.")
        points_by_key[file.stem] = _read_points(file)
    return points_by_key


def _read_points(file: Path) -> np.ndarray:
    # In published files, the points may be followed by the name of the picture or by bytes that are not text.
    lines = file.read_text(encoding="latin-1").splitlines()
    rows = [line.replace(",", " ").split() for line in lines if line.strip() and line.lstrip()[0] != "#"]
    try:
        if rows and len(rows[0]) == 1:
            count = int(rows[0][0])
            if count < 1:
                raise ValueError(f"expected a number of points above 0, got {count}")
            if len(rows) <= count:
                raise ValueError(f"expected {count} points, got {len(rows) - 1}")
            rows = rows[1 : 1 + count]
        points = np.array([[float(cell) for cell in row] for row in rows])
        if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
            raise ValueError("expected x and y in each line")
    except ValueError as error:
        raise InputError(
            f"{file}: invalid landmark file ({brief(str(error))}). Write one line per point, x and y in "
            "pixels; the first line may give their number."
        ) from None
    return points
