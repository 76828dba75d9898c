"""Tables in csv files of others: columns are picked by name, and unused cells may hold anything."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from src.errors import InputError, brief
from src.stimuli.safe_yaml import is_text

# Characters of a cell that is used: names, paths and numbers are shorter.
LONGEST_USED = 131_072
# Characters of any cell. Outlines of bodies (FHIBE) take millions; the bound is that of memory.
LONGEST = 2**27
PUBLISHED = (
    "Is it the file that the publisher ships? Name another, or correct the header (commas part columns)."
)


def read_csv(
    path: Path, columns: Sequence[str], remedy: str, optional: Sequence[str] = (), lacking: str = PUBLISHED
) -> pd.DataFrame:
    """Read columns of a csv whose lines end in any of the three ways; all cells are stripped text.

    The header is the first row that holds all columns: a sheet of a workbook that was saved as csv
    (the norming data of CFD) has titles above it. Cells of other columns are passed over, whatever they hold.

    Args:
        path: the file, UTF-8, with or without a byte order mark.
        columns: that must be there.
        remedy: what to do where the file is missing.
        optional: columns that are taken where they are there.
        lacking: what to do where it lacks a column.

    Returns:
        The columns asked for, and `row`: the number of the row in the file, counted from 1.

    Raises:
        InputError: see `records` and `check_cell`; or the file lacks a column, has one twice or no row below
            the header, or a row has a different number of cells than the header.
    """
    rows = records(path, remedy)
    above, header = _header(rows, columns, path, lacking)
    taken = [*columns, *(column for column in optional if column in header)]
    for column in taken:
        if header.count(column) > 1:
            raise InputError(
                f"{path}, row {above}: the column {column} stands there {header.count(column)} times. "
                "Rename or delete all but one."
            )
    places = {column: header.index(column) for column in taken}
    found: dict[str, list[str | int]] = {column: [] for column in [*taken, "row"]}
    for number, row in rows:
        if not any(row):
            continue
        if len(row) != len(header):
            raise InputError(
                f"{path}, row {number}: {len(row)} cells where the header has {len(header)}. "
                "Correct or delete the row."
            )
        for column, place in places.items():
            check_cell(row[place], column, f"{path}, row {number}")
            found[column].append(row[place])
        found["row"].append(number)
    if not found["row"]:
        raise InputError(f"{path}: no rows below the header in row {above}. Add one for each item.")
    return pd.DataFrame(found)


def records(path: Path, remedy: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a csv, numbered from 1, each cell without outer blanks.

    Bytes that are not UTF-8 come as lone surrogates, which `check_cell` refuses where they are used.

    Args:
        path: the file; its lines end in any of the three ways.
        remedy: what to do where it is missing.

    Raises:
        InputError: the file is missing or unreadable, or holds a quote without its other half (which would
            swallow the rows below it) or a cell of more than `LONGEST` characters.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file. {remedy}")
    csv.field_size_limit(LONGEST)
    number = 0
    try:
        # Universal newlines: OASIS.csv ends its lines in a lone carriage return.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline=None) as file:
            for number, row in enumerate(csv.reader(file, strict=True), start=1):
                yield number, [cell.strip() for cell in row]
    except csv.Error as error:
        raise InputError(
            f"{path}, row {number + 1}: {error}. Save it as a csv in UTF-8; a quote within a cell is doubled."
        ) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. {remedy}") from None


def check_cell(cell: str, name: str, place: str) -> None:
    """Refuse a used cell that is too long or no text.

    Args:
        cell: of `records`.
        name: of its column, for messages.
        place: file and row, for messages.

    Raises:
        InputError: it has more than `LONGEST_USED` characters, or holds a NUL or bytes that are not UTF-8.
    """
    if len(cell) > LONGEST_USED:
        raise InputError(
            f"{place}: {name} has {len(cell):,} characters, of which at most {LONGEST_USED:,} are read. "
            "Shorten it, or use another column."
        )
    if problem := _no_text(cell):
        raise InputError(f"{place}: {name} holds {problem}. Save it as a csv in UTF-8.")


def _no_text(cell: str) -> str:
    """What of a cell is no text; empty where all of it is."""
    if "\0" in cell:
        return "a NUL, as text in UTF-16 does"
    return "" if is_text(cell) else "bytes that are not UTF-8"


def _header(
    rows: Iterator[tuple[int, list[str]]], columns: Sequence[str], path: Path, lacking: str
) -> tuple[int, list[str]]:
    """The first row that holds all columns, with its number; what is below it is left to be read."""
    first: list[str] = []
    for number, row in rows:
        if set(columns) <= set(row):
            return number, row
        first = first if number > 1 else row
    if problem := next(filter(None, map(_no_text, first)), ""):
        raise InputError(f"{path}, row 1: the header holds {problem}. Save it as a csv in UTF-8.")
    missing = [column for column in columns if column not in first]
    raise InputError(
        f"{path}: no column {', '.join(missing)}; found {brief(', '.join(first)) or 'nothing'}. {lacking}"
    )


def unique(rows: pd.DataFrame, column: str, path: Path) -> None:
    """Refuse a csv that names the same thing twice.

    Raises:
        InputError: naming both rows.
    """
    twice = rows[rows[column].duplicated()]
    if len(twice):
        name = twice[column].iloc[0]
        first = rows["row"][rows[column] == name].iloc[0]
        raise InputError(
            f"{path}, row {twice['row'].iloc[0]}: {column} {brief(name)!r} stands in row {first} already. "
            "Delete one of them."
        )


def filled(rows: pd.DataFrame, column: str, path: Path) -> None:
    """Refuse a csv with an empty cell in a column.

    Raises:
        InputError: naming the first such row.
    """
    empty = rows[rows[column] == ""]
    if len(empty):
        raise InputError(
            f"{path}, row {empty['row'].iloc[0]}: no {column} ({len(empty)} such rows). "
            "Fill it in, or delete the row."
        )


def ratings(
    rows: pd.DataFrame, column: str, of: str, ends: tuple[float, float], path: Path, role: str
) -> pd.Series:
    """Rescale ratings to [0, 1].

    Args:
        rows: from `read_csv`.
        column: of the ratings.
        of: column that names what was rated.
        ends: lowest and highest value of the scale.
        path: of the csv, for messages.
        role: scenes or words, whose settings `lowest` and `highest` are the ends, for messages.

    Raises:
        InputError: a rating is no number or lies off the scale, or the scale has no length.
    """
    lowest, highest = ends
    if not (lowest < highest and math.isfinite(highest - lowest)):
        raise InputError(
            f"{role}.lowest={lowest:g}, {role}.highest={highest:g}: the first must be below the second."
        )
    rating = pd.to_numeric(rows[column], errors="coerce")
    for bad, problem in (
        (rating.isna(), "not a number. Correct or delete the row."),
        (
            ~rating.between(lowest, highest),
            f"outside [{lowest:g}, {highest:g}]. Correct it, or set {role}.lowest and {role}.highest to the "
            "ends of the scale.",
        ),
    ):
        if bad.any():
            row, given, name = rows.loc[bad, ["row", column, of]].iloc[0]
            more = f" ({bad.sum()} such rows)" if bad.sum() > 1 else ""
            raise InputError(
                f"{path}, row {row}: {column} {brief(given)!r} of {brief(name)!r}{more} is {problem}"
            )
    return (rating - lowest) / (highest - lowest)
