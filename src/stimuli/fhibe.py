"""Load FHIBE (Xiang et al. 2025): people who describe themselves, and who may withdraw at any time."""

import ast
import logging
import re
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from src.configs import FhibeConfig
from src.errors import InputError, brief, first_few
from src.stimuli import people
from src.stimuli.csvs import read_csv
from src.stimuli.safe_paths import check_paths, refuse_links_out
from src.stimuli.table import LoadedStimuli

log = logging.getLogger(__name__)

ADDRESS = "https://fairnessbenchmark.ai.sony"
REMEDY = (
    "Set dataset.root to the folder that contains fhibe/, or faces.root to the unpacked folder "
    "fhibe.DATE…_downsampled_public (see make data)."
)
VERSION = re.compile(r"(?P<version>fhibe\.(?P<date>\d{8})\..+?)(_downsampled)?(_public)?")
MAX_AGE = 60  # days after which a version is called old: people are removed every month
# Region of the ancestry -> its parts. A person may choose both; the publisher's own evaluation merges them.
REGION_COLUMN, ANCESTRY = "ancestry_region", "ancestry"
REGIONS = {
    "Africa": ("Northern Africa", "Eastern Africa", "Middle Africa", "Southern Africa", "Western Africa"),
    "Americas": ("Caribbean", "Central America", "South America", "Northern America"),
    "Asia": ("Central Asia", "Eastern Asia", "South-eastern Asia", "Southern Asia", "Western Asia"),
    "Europe": ("Eastern Europe", "Northern Europe", "Southern Europe", "Western Europe"),
    "Oceania": ("Australia and New Zealand", "Melanesia", "Micronesia", "Polynesia"),
}
MAX_LIST = 10_000  # characters of a cell that is parsed as a Python list
COLOUR = re.compile(r"[\[(]\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*[\])]")
BOX = ("box_left", "box_top", "box_right", "box_bottom")


def load(cfg: FhibeConfig) -> LoadedStimuli:
    """Load the faces of a csv of FHIBE; people with several values of an axis are left out.

    A cell is a Python list of numbered labels, such as `['1. He/him/his']`, or a single label. Colours of the
    skin are written as `[198, 180, 157]`. Pictures of several people belong to no group and are left out.
    """
    root = find_version(Path(cfg.root))
    path = root / cfg.csv
    columns = {axis.column for axis in cfg.axes.values()} | {*filter(None, (cfg.person, cfg.set))}
    sources = sorted({ANCESTRY if column == REGION_COLUMN else column for column in columns})
    refuse_links_out([path], root, "faces.root")
    header_remedy = "Use the publisher's csv, or change faces.axes to its columns."
    rows = read_csv(path, ["filepath", *sources], REMEDY, optional=["face_bbox"], header_remedy=header_remedy)
    check_paths(rows, "filepath", path, "faces.root")
    listing, notes = rows.rename(columns={"filepath": "file"}), describe_version(root, date.today())
    is_left_out = pd.Series(False, rows.index)

    def leave_out(is_unusable: pd.Series, reason: str) -> None:
        nonlocal is_left_out
        if count := int((is_unusable & ~is_left_out).sum()):
            notes.append(f"{count} {reason}")
        is_left_out |= is_unusable

    for name, axis in cfg.axes.items():
        labels = _read_labels(rows, axis.column, path)
        leave_out(labels.map(len) > 1, f"of people with several values of {name}")
        listing[axis.column] = labels.map(lambda values: values[0] if values else "")
    leave_out(rows["filepath"].duplicated(keep=False), "in pictures of several people")
    if "face_bbox" in rows:
        listing = _add_boxes(listing.drop(columns="face_bbox"), rows, path)
    if is_left_out.all():
        raise InputError(
            f"{path}: no face is left of {len(rows)} rows ({'; '.join(notes)}). Correct faces.axes or "
            "faces.csv."
        )
    listing = listing[~is_left_out].reset_index(drop=True)
    frame, _, table_notes = people.build_faces(listing, cfg, path, root)
    return frame, len(rows), notes + table_notes


def _read_labels(rows: pd.DataFrame, column: str, path: Path) -> pd.Series:
    """Return the different labels of each row; `REGION_COLUMN` replaces parts of regions by the regions."""
    source = ANCESTRY if column == REGION_COLUMN else column
    labels = [
        parse_labels(cell, f"{path}, row {row}: {source}")
        for row, cell in zip(rows["row"], rows[source], strict=True)
    ]
    regions = {area: region for region, areas in REGIONS.items() for area in areas}
    if column == REGION_COLUMN:
        labels = [[regions.get(label, label) for label in row_labels] for row_labels in labels]
    return pd.Series([list(dict.fromkeys(row_labels)) for row_labels in labels], rows.index, dtype=object)


def find_version(root: Path) -> Path:
    """Return the folder of FHIBE's only version in a folder, which may be that of the version itself.

    Raises:
        InputError: the folder has no version or several.
    """
    if (root / "data" / "processed").is_dir():
        return root
    versions = sorted(path for path in root.glob("fhibe*") if (path / "data" / "processed").is_dir())
    if not versions:
        raise InputError(f"{root}: no folder fhibe.DATE… with data/processed in it. {REMEDY}")
    if len(versions) > 1:
        raise InputError(
            f"{root}: several versions ({first_few(path.name for path in versions)}). Delete all but the "
            "latest, which lacks the people who withdrew, or set faces.root to it."
        )
    return versions[0]


def describe_version(root: Path, today: date) -> list[str]:
    """Describe the version that the name of a folder states; warn if it is older than `MAX_AGE` days."""
    match = VERSION.fullmatch(Path(root.resolve()).name)
    published = _parse_date(match["date"]) if match else None
    if not match or not published:
        log.warning("%s: no version in the name; people may have withdrawn since it was published.", root)
        return ["version of FHIBE unknown: its folder is not named fhibe.DATE…"]
    notes = [f"version {match['version']}"]
    if (today - published).days > MAX_AGE:
        warning = (
            f"the version of {published} is older than {MAX_AGE} days: people may have withdrawn since. "
            f"Fetch the current one from {ADDRESS}"
        )
        log.warning("%s: %s.", root, warning)
        notes.append(warning)
    return notes


def _parse_date(digits: str) -> date | None:
    try:
        return date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return None


def parse_labels(cell: str, location: str) -> list[str]:
    """Parse a cell: a Python list of labels, a colour, or a single label; numbers of labels are dropped.

    Raises:
        InputError: the cell begins as a list but is none of labels or numbers; `location` is for the message.

    >>> parse_labels("['0. She/her/hers', '2. They/them/their']", "")
    ['She/her/hers', 'They/them/their']
    >>> parse_labels("2. [189,163,137]", ""), parse_labels("34", ""), parse_labels("[]", "")
    (['[189, 163, 137]'], ['34'], [])
    """
    if cell in ("", "nan", "None"):
        return []
    if not cell.startswith("[") or COLOUR.fullmatch(cell):
        return [_clean_label(cell)]
    try:
        labels: Any = ast.literal_eval(cell) if len(cell) <= MAX_LIST else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InputError(
            f"{location}: expected a list of labels such as ['1. He/him/his'], got {brief(cell, 50)!r}. Use "
            "the publisher's csv, or correct the cell."
        )
    return [_clean_label(label) for label in labels]


def _clean_label(label: str) -> str:
    text = re.sub(r"^\d+\.\s+", "", label.strip())
    colour = COLOUR.fullmatch(text)
    return f"[{', '.join(colour.groups())}]" if colour else text


def _add_boxes(listing: pd.DataFrame, rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Add the boxes of faces, which are `[left, top, width, height]` in whole pictures (`main_…`)."""
    boxes = []
    for row, file, cell in zip(rows["row"], rows["filepath"], rows["face_bbox"], strict=True):
        box: Any = None
        if Path(file).name.startswith("main_") and cell not in ("", "nan", "None"):
            try:
                box = ast.literal_eval(cell) if len(cell) <= MAX_LIST else cell
                left, top, width, height = map(float, box)
                box = (left, top, left + width, top + height)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
                raise InputError(
                    f"{path}, row {row}: face_bbox must be [left, top, width, height], got "
                    f"{brief(cell, 50)!r}. Use the publisher's csv, or correct the cell."
                ) from None
        boxes.append(box or (None,) * 4)
    if not any(map(any, boxes)):  # cropped faces
        return listing
    return listing.join(pd.DataFrame(boxes, columns=BOX, index=listing.index, dtype=float))
