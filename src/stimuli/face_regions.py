"""Locate faces in pictures: by the boxes of the table, or at the same place in standardised portraits."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from jaxtyping import Float

from src import configs
from src.errors import InputError, brief, first_few
from src.stimuli.pictures import Box, compute_centre_square, read_upright_size
from src.stimuli.table import Table

# Columns of a table of faces: the edges of a face in pixels of its upright picture.
BOX_COLUMNS = ("box_left", "box_top", "box_right", "box_bottom")

# Sizes of the pictures of a table, by its hash and their location, so that they are read once per process.
_sizes: dict[tuple[str, str], np.ndarray] = {}


def read_boxes(table: Table) -> Float[np.ndarray, "n 4"] | None:
    """Return the boxes of a table of faces, NaN where missing; None if the table has no columns of boxes."""
    if not {*BOX_COLUMNS} <= {*table.frame}:
        return None
    columns = [pd.to_numeric(table.frame[name], errors="coerce") for name in BOX_COLUMNS]
    return np.stack([column.to_numpy(dtype=float, na_value=np.nan) for column in columns], axis=1)


def find_face_box(faces: configs.RoleConfig) -> Sequence[float] | None:
    """Return the box that the config of standardised portraits, or of the parents of morphs, declares."""
    source = faces.parents if isinstance(faces, configs.MorphsConfig) else faces
    face_box: Sequence[float] | None = getattr(source, "face_box", None)
    return face_box


def place_in_square(face_box: Sequence[float], size: tuple[int, int]) -> Box:
    """Convert a box from shares of the centre square of a picture to pixels.

    >>> place_in_square([0.25, 0.5, 0.75, 1.0], (200, 100))
    (75.0, 50.0, 125.0, 100.0)
    """
    left, upper, right, _ = compute_centre_square(*size)
    edge = right - left
    x_low, y_low, x_high, y_high = face_box
    return left + x_low * edge, upper + y_low * edge, left + x_high * edge, upper + y_high * edge


def enlarge(box: Box, margin: float) -> Box:
    """Enlarge a box by shares of its width and height on each side.

    >>> enlarge((10, 20, 20, 40), 0.5)
    (5.0, 10.0, 25.0, 50.0)
    """
    left, upper, right, lower = box
    across, down = margin * (right - left), margin * (lower - upper)
    return left - across, upper - down, right + across, lower + down


def check(faces: configs.RoleConfig, table: Table, setting: str) -> list[str]:
    """Check that the region of every face is known; return notes on which region is used.

    `setting` is the option that needs the regions, for messages.

    Raises:
        InputError: the table has no boxes and the faces are no standardised portraits; or boxes are missing,
            empty, or centred outside their picture.
    """
    boxes = read_boxes(table)
    if boxes is None:
        face_box = find_face_box(faces)
        if face_box is None:
            raise InputError(
                f"{setting}: the region of the faces is unknown. Choose faces=people, and set "
                "faces.box=[LEFT,TOP,RIGHT,BOTTOM] to the columns of its edges in pixels; or, for portraits "
                "that are all framed alike, set faces.face_box=[LEFT,TOP,RIGHT,BOTTOM] in shares of the "
                "centre square."
            )
        _check_face_box(face_box)
        edges = ", ".join(f"{edge:g}" for edge in face_box)
        return [f"face region: the same box in all portraits, {edges} of the centre square"]
    ids = table.frame["id"]
    widths, heights = _read_sizes(table).T
    left, upper, right, lower = boxes.T
    centre_x, centre_y = (left + right) / 2, (upper + lower) / 2
    is_missing = np.isnan(boxes).any(axis=1)
    is_empty = ~is_missing & ((right <= left) | (lower <= upper))
    is_outside = (centre_x < 0) | (centre_x > widths) | (centre_y < 0) | (centre_y > heights)
    is_outside &= ~is_missing & ~is_empty
    problems = [
        f"{mask.sum()} have {problem}: {first_few(ids[mask])}"
        for mask, problem in (
            (is_missing, "no box"),
            (is_empty, "an empty box"),
            (is_outside, "a box whose centre is outside the picture"),
        )
        if mask.any()
    ]
    if problems:
        raise InputError(
            f"{setting}: of {len(table.frame)} faces, {'; '.join(problems)}. Correct "
            f"{', '.join(BOX_COLUMNS)}, leave these faces out, or choose a perturbation that needs no face."
        )
    n_clipped = int(((left < 0) | (upper < 0) | (right > widths) | (lower > heights)).sum())
    clipped = f"; {n_clipped} reach beyond their picture and are cut at its edge" if n_clipped else ""
    return [f"face region: the boxes of the data{clipped}"]


def _check_face_box(face_box: Sequence[float]) -> None:
    edges = [float(edge) for edge in face_box]
    if len(edges) != 4 or not (0 <= edges[0] < edges[2] <= 1 and 0 <= edges[1] < edges[3] <= 1):
        raise InputError(
            f"faces.face_box={brief(str(list(face_box)))}: expected LEFT,TOP,RIGHT,BOTTOM from 0 to 1, left "
            "less than right and top less than bottom. Correct it."
        )


def _read_sizes(table: Table) -> np.ndarray:
    """Read width and height of the upright picture of each row, [N, 2]."""
    paths = table.frame["path"].tolist()
    key = table.hash, paths[0]
    if key not in _sizes:
        with ThreadPoolExecutor() as pool:
            _sizes[key] = np.array(list(pool.map(read_upright_size, paths)))
    return _sizes[key]
