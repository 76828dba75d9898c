"""Tables of published datasets."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from src.errors import InputError, brief


def read_csv(path: Path, columns: Sequence[str], remedy: str, optional: Sequence[str] = ()) -> pd.DataFrame:
    """Read a csv whose lines end in any of the three ways; all cells are stripped text.

    The header is the first row that holds all columns: a sheet of a workbook that was saved as csv
    (the norming data of CFD) has titles above it.

    Args:
        path: the file, UTF-8, with or without a byte order mark.
        columns: that must be there.
        remedy: what to do where the file is missing.
        optional: columns that are taken where they are there.

    Returns:
        The columns asked for, and `row`: the number of the row in the file, counted from 1.

    Raises:
        InputError: see `cells`; or the file lacks a column, has one twice or no row below the header, or a
            row has a different number of cells than the header.
    """
    rows = cells(path, remedy)
    above = next((number for number, row in enumerate(rows) if set(columns) <= set(row)), 0)
    header = rows[above] if rows else []
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; found {brief(', '.join(header)) or 'nothing'}. "
            "Is it the file that the publisher ships? Name another, or correct the header "
            "(commas part columns)."
        )
    taken = [*columns, *(column for column in optional if column in header)]
    for column in taken:
        if header.count(column) > 1:
            raise InputError(
                f"{path}, row {above + 1}: the column {column} stands there {header.count(column)} times. "
                "Rename or delete all but one."
            )
    numbered = [(number, row) for number, row in enumerate(rows[above + 1 :], start=above + 2) if any(row)]
    for number, row in numbered:
        if len(row) != len(header):
            raise InputError(
                f"{path}, row {number}: {len(row)} cells where the header has {len(header)}. "
                "Correct or delete the row."
            )
    if not numbered:
        raise InputError(f"{path}: no rows below the header in row {above + 1}. Add one for each item.")
    data = {column: [row[header.index(column)] for _, row in numbered] for column in taken}
    return pd.DataFrame(data).assign(row=[number for number, _ in numbered])


def cells(path: Path, remedy: str) -> list[list[str]]:
    """All rows of a csv whose lines end in any of the three ways, each cell without outer blanks.

    Raises:
        InputError: the file is missing or unreadable, is not UTF-8, holds a quote without its other half
            (which would swallow the rows below it), a NUL, or a cell of more than 131,072 signs.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file. {remedy}")
    rows: list[list[str]] = []
    try:
        # Universal newlines: OASIS.csv ends its lines in a lone carriage return.
        with path.open(encoding="utf-8-sig", newline=None) as file:
            for row in csv.reader(file, strict=True):
                if any("\0" in cell for cell in row):
                    raise csv.Error("NUL characters, as text in UTF-16 has them")
                rows.append([cell.strip() for cell in row])
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {error}. Save it as a csv in UTF-8.") from None
    except csv.Error as error:
        raise InputError(
            f"{path}, row {len(rows) + 1}: {error}. Save it as a csv in UTF-8; a quote within a cell is "
            "doubled."
        ) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. {remedy}") from None
    return rows


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


def ratings(rows: pd.DataFrame, column: str, of: str, highest: float, path: Path) -> pd.Series:
    """Ratings on a scale that begins at 1, rescaled to [0, 1].

    Args:
        rows: from `read_csv`.
        column: of the ratings.
        of: column that names what was rated.
        highest: end of the scale.
        path: of the csv, for messages.

    Raises:
        InputError: a rating is no number, or lies off the scale.
    """
    rating = pd.to_numeric(rows[column], errors="coerce")
    bad = rows[~rating.between(1, highest)]
    if len(bad):
        raise InputError(
            f"{path}, row {bad['row'].iloc[0]}: {column} {brief(bad[column].iloc[0])!r} of "
            f"{brief(bad[of].iloc[0])!r} is not a number from 1 to {highest:g}. Correct or delete the row."
        )
    return (rating - 1) / (highest - 1)
