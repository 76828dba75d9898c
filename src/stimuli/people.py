"""Build tables of faces with any attributes, persons and sets from listings of pictures."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from src.configs import AxisConfig, FaceTableConfig, ListingConfig
from src.errors import InputError, brief, did_you_mean, first_few
from src.stimuli import pictures
from src.stimuli.csvs import check_cell, check_filled, check_unique, read_csv, refuse_reserved
from src.stimuli.group_sampling import map_values, sample_groups
from src.stimuli.safe_paths import check_paths, convert_to_posix, refuse_links_out
from src.stimuli.table import BOX, NOT_ATTRIBUTES, LoadedStimuli, check_boxes

SET_COLUMNS = "Set faces.file, faces.axes, faces.person, faces.set and faces.box to its columns"
# Maximum number of names that a message lists.
MAX_LISTED = 20


def load_listing(cfg: ListingConfig) -> LoadedStimuli:
    """Load the faces of a csv or Parquet file with a row per picture."""
    root, boxes = Path(cfg.root), list(cfg.box or [])
    if cfg.box is not None and len(boxes) != len(BOX):
        raise InputError(
            f"faces.box={boxes}: expected four columns, of the left, top, right and bottom edge in pixels."
        )
    path = root / cfg.listing
    refuse_links_out([path], root, "faces.root")
    attributes = [axis.column for axis in cfg.axes.values()]
    columns = dict.fromkeys([cfg.file, *attributes, *filter(None, (cfg.person, cfg.set)), *boxes])
    rows = _read_columns(path, list(columns))
    check_filled(rows, cfg.file, path)
    names, notes = convert_to_posix(rows[cfg.file], root, path)
    listing = rows.assign(
        file=names, **{name: rows[column] for name, column in zip(BOX, boxes, strict=False)}
    )
    check_unique(listing, "file", path)
    frame, n_faces, further_notes = build_faces(listing, cfg, path, root)
    return frame, n_faces, notes + further_notes


def build_faces(listing: pd.DataFrame, cfg: FaceTableConfig, source: Path, root: Path) -> LoadedStimuli:
    """Build a table of faces from a listing of pictures.

    Values are mapped and numbers binned as `cfg.axes` states. Faces without a chosen value of every axis are
    left out and counted. Groups are the combinations of the axes in `cfg.group`.

    Args:
        listing: a row per face: `file`, the picture's path below `root` with `/`; `row`, its number in the
            source; the columns that `cfg` names, as texts or numbers; optionally the edges of the face's
            region in the upright picture in pixels, the columns `BOX`.
        cfg: axes, groups, persons, sets, and how to sample.
        source: file of the listing, for messages.
        root: folder of the pictures (`faces.root`).

    Returns:
        The columns `id`, `group`, one per axis, `path`, `sha256` and `conversions`; `person`, `set` and `BOX`
        where the listing has them. The number of faces in the listing, and notes on those left out.

    Raises:
        InputError: the axes are contradictory, a column or a chosen value does not occur, a number cannot be
            read, a region is empty, a picture is outside of `root`, unreadable or listed twice, or a group
            has too few faces.
    """
    _check_axes(cfg)
    columns = [axis.column for axis in cfg.axes.values()] + list(filter(None, (cfg.person, cfg.set)))
    names = [str(name) for name in listing]
    if absent := next((column for column in columns if column not in names), None):
        raise InputError(
            f"{source}: no column {absent}; found {brief(', '.join(names))}."
            f"{did_you_mean(absent, names)} {SET_COLUMNS}."
        )
    check_paths(listing, "file", source, "faces.root")
    values, notes = _choose_values(listing, cfg.axes, source)
    chosen = listing.loc[values.index]
    frame = pd.DataFrame({"id": chosen["file"], "group": _join(values, cfg.group)})
    frame[[*cfg.axes]] = values
    for name, column in (("person", cfg.person), ("set", cfg.set)):
        if column is not None:
            texts = to_texts(chosen[column])
            frame[name] = texts.astype(object).where(texts != "", None)
    boxes = [name for name in BOX if name in listing]
    frame[boxes] = chosen[boxes].replace("", np.nan)
    frame["path"] = [str(root / name) for name in chosen["file"]]
    frame["row"] = chosen["row"]
    check_boxes(frame, str(source))
    remedy = f"Set faces.root to the folder that the paths begin in. {SET_COLUMNS}."
    frame, absent_notes = pictures.drop_absent(
        frame.reset_index(drop=True), source, root, "faces.root", remedy
    )
    frame, sample_notes = sample_groups(frame, cfg, source)
    notes += absent_notes + sample_notes + _note_empty_groups(frame, cfg)
    return pictures.add_hashes(frame), len(listing), notes


def to_texts(column: pd.Series) -> pd.Series:
    """Convert a column to stripped texts: "" for missing values, whole numbers without a decimal point.

    >>> to_texts(pd.Series([1.0, 2.5, None])).tolist(), to_texts(pd.Series([" Male", None])).tolist()
    (['1', '2.5', ''], ['Male', ''])
    """
    if pd.api.types.is_float_dtype(column):
        return column.map(lambda number: "" if pd.isna(number) else f"{number:.15g}").astype(str)
    return column.astype(object).where(column.notna(), "").astype(str).str.strip()


def _check_axes(cfg: FaceTableConfig) -> None:
    """Refuse axes that contradict themselves, and groups of unknown axes."""
    if not cfg.group:
        raise InputError("faces.group=[]: name the axes that make up a group's name, some of faces.axes.")
    for number, name in enumerate(cfg.group):
        if name not in cfg.axes or name in cfg.group[:number]:
            problem = "occurs twice" if name in cfg.group[:number] else "is not among faces.axes"
            raise InputError(
                f"faces.group={list(cfg.group)}: {name!r} {problem}.{did_you_mean(name, cfg.axes)} Name some "
                f"of {', '.join(cfg.axes)}, each once."
            )
    for name, axis in cfg.axes.items():
        setting = f"faces.axes.{name}"
        if name in NOT_ATTRIBUTES or ":" in name:
            raise InputError(f"{setting}: the name is reserved, or contains a colon. Rename the axis.")
        if axis.values is not None and axis.bins is not None:
            raise InputError(f"{setting}: has values and bins. Use values for texts, bins for numbers.")
        texts = [text for texts in (axis.values or {}).values() for text in texts]
        if no_texts := [text for text in texts if isinstance(text, bool | None)]:
            raise InputError(f"{setting}.values: {no_texts[0]} is no text. Put quotes around yes, no, null.")
        if repeated := next((text for text in texts if texts.count(text) > 1), None):
            raise InputError(f"{setting}.values: {repeated!r} occurs twice. Delete one.")
        for value, limits in (axis.bins or {}).items():
            is_number = [isinstance(limit, int | float) for limit in limits]
            if is_number != [True, True] or not limits[0] <= limits[1]:
                raise InputError(
                    f"{setting}.bins: {value!r} is {list(limits)}; expected its lowest and highest number."
                )
        ordered = sorted((tuple(limits), value) for value, limits in (axis.bins or {}).items())
        for (low_limits, low), (high_limits, high) in pairwise(ordered):
            if high_limits[0] <= low_limits[1]:
                raise InputError(
                    f"{setting}.bins: {low!r} {list(low_limits)} and {high!r} {list(high_limits)} overlap; "
                    "both limits of a bin are included. Separate them."
                )


def _choose_values(
    listing: pd.DataFrame, axes: Mapping[str, AxisConfig], source: Path
) -> tuple[pd.DataFrame, list[str]]:
    """Return the values of each axis, for the faces that have a chosen value of all; count the others."""
    values, notes = pd.DataFrame(index=listing.index), []
    is_chosen = pd.Series(True, listing.index)
    for name, axis in axes.items():
        texts = to_texts(listing[axis.column])
        rows = pd.DataFrame({axis.column: texts, "row": listing["row"]})
        if axis.bins is not None:
            mapped, other = _bin(rows, axis.column, axis.bins, source, name), f"outside the bins of {name}"
        elif axis.values is not None:
            chosen = {value: [*map(str, chosen)] for value, chosen in axis.values.items()}
            mapped = map_values(rows, axis.column, chosen, source, f"faces.axes.{name}.values")
            other = f"of another {name}"
        else:
            mapped, other = texts.where(texts != "", None), ""
        # A face that lacks several values is counted once, by the first of them.
        for is_missing, reason in ((texts == "", f"without {name}"), (mapped.isna(), other)):
            if count := int((is_chosen & is_missing).sum()):
                notes.append(f"{count} {reason}")
            is_chosen &= ~is_missing
        values[name] = mapped
    if not is_chosen.any():
        raise InputError(
            f"{source}: no face has a chosen value of {', '.join(axes)} ({'; '.join(notes)}). Correct "
            "faces.axes."
        )
    return values[is_chosen].astype(str), notes


def _bin(
    rows: pd.DataFrame, column: str, bins: Mapping[str, Sequence[float]], source: Path, axis: str
) -> pd.Series:
    """Return the bin of each number of a column; null for those outside of all bins, and for empty cells."""
    numbers = pd.to_numeric(rows[column], errors="coerce")
    is_invalid = numbers.isna() & (rows[column] != "")
    if is_invalid.any():
        row, text = rows.loc[is_invalid, ["row", column]].iloc[0]
        raise InputError(
            f"{source}, row {row}: {column} {brief(text)!r} is not a number ({is_invalid.sum()} such rows). "
            f"Correct it, or use values in place of bins in faces.axes.{axis}."
        )
    binned = pd.Series(None, rows.index, dtype=object)
    for name, (low, high) in bins.items():
        binned[numbers.between(low, high)] = name
    return binned


def _join(values: pd.DataFrame, axes: Sequence[str]) -> pd.Series:
    return values[list(axes)].agg(" ".join, axis=1)


def _note_empty_groups(frame: pd.DataFrame, cfg: FaceTableConfig) -> list[str]:
    """List the combinations of the values of the groups' axes that no face has, as a note."""
    combinations = map(" ".join, product(*(sorted(set(frame[name])) for name in cfg.group)))
    empty = sorted({*combinations} - {*frame["group"]})
    return [f"{len(empty)} groups have no face ({first_few(empty, MAX_LISTED)})"] if empty else []


def _read_columns(path: Path, columns: list[str]) -> pd.DataFrame:
    """Read columns of a csv or Parquet file; the column `row` counts rows from 1, with a csv's header."""
    remedy = "Set faces.root to the folder of the pictures, and faces.listing to a file in it or a full path."
    header_remedy = f"{SET_COLUMNS}, or correct the header."
    if path.suffix.lower() != ".parquet":
        return read_csv(path, columns, remedy, header_remedy=header_remedy)
    refuse_reserved(columns, path)
    if not path.is_file():
        raise InputError(f"{path}: no such file. {remedy}")
    try:
        names = pq.read_schema(path).names
        if not {*columns} - {*names}:
            table = pq.read_table(path, columns=columns)
            table.validate(full=True)
            # Without pandas' metadata, a named index is a column like any other. Whole numbers stay exact
            # beside empty cells.
            frame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a Parquet file ({brief(str(error))}). Write it again.") from None
    if missing := [column for column in columns if column not in names]:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; found {brief(', '.join(names))}. {header_remedy}"
        )
    if frame.empty:
        raise InputError(f"{path}: no rows. Add one for each picture.")
    rows = pd.DataFrame({column: to_texts(frame[column]) for column in columns})
    for column in columns:
        for number, text in enumerate(rows[column], 1):
            check_cell(text, column, f"{path}, row {number}")
    return rows.assign(row=range(1, len(rows) + 1))
