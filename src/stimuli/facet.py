"""Load FACET (Gustafson et al. 2023): people in photographs, as annotators perceived them."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from src.configs import FacetConfig
from src.errors import InputError, brief
from src.stimuli import people
from src.stimuli.csvs import read_csv
from src.stimuli.safe_paths import check_paths, refuse_links_out
from src.stimuli.table import LoadedStimuli

REMEDY = (
    "Set dataset.root to the folder that contains facet/, or faces.root to the folder that contains "
    "annotations/ (see make data)."
)
# Attribute -> prefix of its columns, each of which counts the annotators who chose the value that follows.
PREFIXES = {
    "gender": "gender_presentation_",
    "age": "age_presentation_",
    "hair_color": "hair_color_",
    "hair_type": "hairtype_",
    "lighting": "lighting_",
}
VALUES = {
    "gender": ("masc", "fem", "non_binary", "na"),
    "age": ("young", "middle", "older", "na"),
    "hair_color": ("brown", "blonde", "grey", "black", "colored", "red", "na"),
    "hair_type": ("coily", "dreadlocks", "bald", "straight", "curly", "wavy", "na"),
    "lighting": ("underexposed", "dimly_lit", "well_lit", "overexposed", "na"),
}
# Median of the chosen tones of the Monk Skin Tone scale, from 1 (light) to 10 (dark), in steps of .5.
SKIN, TONES, SKIN_PREFIX = "skin", range(1, 11), "skin_tone_"
MAX_PIXELS = 1e6  # largest coordinate of a box
MAX_VOTES = 1000  # largest number of annotators of a person


def load(cfg: FacetConfig) -> LoadedStimuli:
    """Load the people of FACET, each as the region of its picture that its box encloses.

    An attribute is the value with the most votes of annotators; people with a tie are left out. The tone of
    the skin is the median of the chosen tones. Other columns of the csv are read as they are.
    """
    root = Path(cfg.root)
    path = root / cfg.csv
    attributes = {axis.column: name for name, axis in cfg.axes.items()}
    columns = ["filename", "bounding_box", *([cfg.person] if cfg.person else [])]
    columns += [column for attribute in attributes for column in _list_columns(attribute)]
    refuse_links_out([path], root, "faces.root")
    rows = read_csv(path, list(dict.fromkeys(columns)), REMEDY)
    check_paths(rows, "filename", path, "faces.pictures")
    listing = rows.assign(file=pd.Series(_locate(rows, cfg, root, path), rows.index, dtype=object))
    is_left_out, notes = listing["file"].isna(), []
    if is_left_out.any():
        notes.append(f"{int(is_left_out.sum())} whose box has no area")
    for attribute, name in attributes.items():
        if attribute == SKIN:
            listing[SKIN] = _take_median(_read_votes(rows, _list_columns(SKIN), path))
        if attribute not in PREFIXES:
            continue
        votes = _read_votes(rows, _list_columns(attribute), path)
        listing[attribute], is_tie = _take_mode(votes, attribute)
        if count := int((is_tie & ~is_left_out).sum()):
            notes.append(f"{count} with a tie between values of {name}")
        is_left_out |= is_tie
    if is_left_out.all():
        raise InputError(
            f"{path}: no person is left of {len(rows)} rows ({'; '.join(notes)}). Correct faces.axes."
        )
    listing = listing[~is_left_out].reset_index(drop=True)
    frame, _, table_notes = people.build_faces(listing, cfg, path, root)
    return frame, len(rows), notes + table_notes


def _list_columns(attribute: str) -> list[str]:
    """List the columns of the csv that an attribute is made from."""
    if attribute == SKIN:
        return [f"{SKIN_PREFIX}{tone}" for tone in TONES]
    if attribute in PREFIXES:
        return [PREFIXES[attribute] + value for value in VALUES[attribute]]
    return [attribute]


def _locate(rows: pd.DataFrame, cfg: FacetConfig, root: Path, path: Path) -> list[str | None]:
    """Return the path below `root` of each person's region of a picture; None for a box without area."""
    folder_by_name: dict[str, str] = {}
    for folder in reversed(cfg.pictures):
        if (root / folder).is_dir():
            folder_by_name |= dict.fromkeys((item.name for item in (root / folder).iterdir()), folder)
    files: list[str | None] = []
    for row, name, cell in zip(rows["row"], rows["filename"], rows["bounding_box"], strict=True):
        left, upper, right, lower = _parse_box(cell, f"{path}, row {row}")
        folder = folder_by_name.get(name, cfg.pictures[0])
        has_area = right > left and lower > upper
        files.append(f"{folder}/{name}/{left},{upper},{right},{lower}" if has_area else None)
    return files


def _parse_box(cell: str, location: str) -> tuple[int, int, int, int]:
    """Parse a JSON of x, y, width and height into the edges of whole pixels within the picture."""
    try:
        box = json.loads(cell)
        x, y, width, height = (float(box[key]) for key in ("x", "y", "width", "height"))
        if (
            not all(map(math.isfinite, (x, y, width, height)))
            or max(map(abs, (x, y, width, height))) > MAX_PIXELS
        ):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise InputError(
            f"{location}: bounding_box must be a JSON of numbers x, y, width and height, got "
            f"{brief(cell, 60)!r}. Use the publisher's csv, or correct the cell."
        ) from None
    return max(0, int(x)), max(0, int(y)), max(0, int(x + width)), max(0, int(y + height))


def _read_votes(rows: pd.DataFrame, columns: Sequence[str], path: Path) -> np.ndarray:
    """Read the numbers of annotators who chose each value [people, values]; empty cells count 0."""
    cells = rows[list(columns)]
    numbers = cells.apply(pd.to_numeric, errors="coerce").where(cells != "", 0)
    votes: np.ndarray = numbers.to_numpy(dtype=float)
    if not (is_valid := np.isfinite(votes) & (votes >= 0)).all():
        row, column = np.argwhere(~is_valid)[0]
        raise InputError(
            f"{path}, row {rows['row'].iloc[row]}: {columns[column]} must be a number of annotators, got "
            f"{brief(cells.iat[row, column], 50)!r}. Use the publisher's csv, or correct the cell."
        )
    return votes


def _take_mode(votes: np.ndarray, attribute: str) -> tuple[list[str], pd.Series]:
    """Return the value with the most votes (empty without votes), and whether several have as many."""
    maxima = votes.max(axis=1)
    is_tie = ((votes == maxima[:, None]).sum(axis=1) > 1) & (maxima > 0)
    values = np.array(VALUES[attribute])[votes.argmax(axis=1)]
    return np.where(maxima > 0, values, "").tolist(), pd.Series(is_tie)


def _take_median(votes: np.ndarray) -> list[str]:
    """Return the median of the chosen tones, empty without votes.

    >>> _take_median(np.array([[1, 2, 0, 0, 0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0, 0, 0, 0], [0] * 10]))
    ['2', '2.5', '']
    """
    chosen = [np.repeat(TONES, np.minimum(counts, MAX_VOTES).astype(int)) for counts in votes]
    return [f"{np.median(tones):g}" if len(tones) else "" for tones in chosen]
