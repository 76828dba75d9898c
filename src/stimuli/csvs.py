"""Read named columns of csv files of publishers and users, without checking unused cells."""

import csv
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pandas as pd

from src.errors import InputError, brief
from src.stimuli.safe_yaml import is_text

# Maximum number of characters of a used cell; names, paths, numbers, and answers with reasoning are shorter.
MAX_USED_CELL = 2**20
# Maximum number of characters of any cell, to limit memory; body outlines (FHIBE) take millions.
MAX_CELL = 2**27
# Encoding of files, unless a setting states another: UTF-8 with or without a byte order mark.
ENCODING = "utf-8-sig"
# Number with a decimal comma.
DECIMAL_COMMA = r"[-+]?\d*,\d+"
HEADER_REMEDY = "Use the publisher's file, or correct the header (commas separate columns)."


def read_csv(
    path: Path,
    columns: Sequence[str],
    remedy: str,
    optional: Sequence[str] = (),
    header_remedy: str = HEADER_REMEDY,
    separator: str = ",",
    encoding: str = ENCODING,
) -> pd.DataFrame:
    """Read columns of a csv with LF, CRLF or CR line endings, as stripped text.

    The header is the first row that contains all required columns, because a sheet of a workbook saved as csv
    (the norming data of CFD) may have titles above it. Columns that are neither required nor optional are
    ignored. The column `row` of the result is the number of the row in the file, counted from 1. `remedy` is
    the last sentence of the message if the file is missing or unreadable.

    Raises:
        InputError: see `read_rows`, `check_cell` and `refuse_reserved`; or a column is missing (the message
            ends in `header_remedy`) or repeated, no row follows the header, or a row and the header differ in
            their number of cells.
    """
    refuse_reserved([*columns, *optional], path)
    rows = read_rows(path, remedy, separator, encoding)
    header_row, header = _find_header(rows, columns, path, header_remedy)
    used_columns = [*columns, *(column for column in optional if column in header)]
    for column in used_columns:
        if (times := header.count(column)) > 1:
            raise InputError(
                f"{path}, row {header_row}: the column {column} occurs {times} times. Rename one."
            )
    positions = {column: header.index(column) for column in used_columns}
    cells: dict[str, list[str | int]] = {column: [] for column in [*used_columns, "row"]}
    for number, row in rows:
        if not any(row):
            continue
        if len(row) != len(header):
            raise InputError(
                f"{path}, row {number}: {len(row)} cells where the header has {len(header)}. Correct the row."
            )
        for column, position in positions.items():
            check_cell(row[position], column, f"{path}, row {number}")
            cells[column].append(row[position])
        cells["row"].append(number)
    if not cells["row"]:
        raise InputError(f"{path}: no rows below the header in row {header_row}. Add one for each item.")
    return pd.DataFrame(cells)


def read_rows(
    path: Path, remedy: str, separator: str = ",", encoding: str = ENCODING
) -> Iterator[tuple[int, list[str]]]:
    """Yield the numbered rows of a csv, counted from 1, with stripped cells; in a tsv, quotes are characters.

    Bytes that are not UTF-8 become lone surrogates, which `check_cell` refuses in used cells. `remedy` is the
    last sentence of the message if the file is missing or unreadable.

    Raises:
        InputError: the file is missing or unreadable, or contains an unclosed quote (the rows below would
            belong to it) or a cell of more than `MAX_CELL` characters.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file. {remedy}")
    csv.field_size_limit(MAX_CELL)
    number = 0
    try:
        # Universal newlines: the lines of OASIS.csv end in a lone carriage return.
        with path.open(encoding=encoding, errors="surrogateescape", newline=None) as file:
            quote = None if separator == "\t" else '"'
            reader = csv.reader(file, delimiter=separator, quotechar=quote, strict=True)
            for number, row in enumerate(reader, start=1):
                yield number, [cell.strip() for cell in row]
    except csv.Error as error:
        csv_remedy = "Save it as a csv in UTF-8; double each quote within a cell."
        if "field limit" in str(error):
            csv_remedy = "Close the quote that opens the cell, or shorten the cell."
        raise InputError(f"{path}, row {number + 1}: {error}. {csv_remedy}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. {remedy}") from None


def refuse_reserved(columns: Collection[str], path: Path) -> None:
    """Refuse to read a column with the name of the column that readers add, `row`."""
    if "row" in columns:
        raise InputError(f"{path}: the name of the column row is reserved. Rename it in the file.")


def check_cell(cell: str, column: str, location: str) -> None:
    """Refuse a used cell that is too long, contains a NUL, or has bytes that are not UTF-8.

    `location` is the file and the row, for messages.
    """
    if len(cell) > MAX_USED_CELL:
        raise InputError(
            f"{location}: {column} has {len(cell):,} characters; the limit is {MAX_USED_CELL:,}. "
            "Shorten it, or use another column."
        )
    if problem := _find_text_problem(cell):
        raise InputError(f"{location}: {column} contains {problem}. Save it as a csv in UTF-8.")


def _find_text_problem(cell: str) -> str:
    """Describe why a cell is not text; empty if it is."""
    if "\0" in cell:
        return "a NUL character (the file may be UTF-16)"
    return "" if is_text(cell) else "bytes that are not UTF-8"


def _find_header(
    rows: Iterator[tuple[int, list[str]]], columns: Sequence[str], path: Path, remedy: str
) -> tuple[int, list[str]]:
    """Return the number and the cells of the first row with all columns, and consume `rows` up to it."""
    best_row: list[str] = []
    best_number, max_count = 1, -1
    for number, row in rows:
        count = len(set(columns) & set(row))
        if count == len(set(columns)):
            return number, row
        if count > max_count:
            best_row, best_number, max_count = row, number, count
    if problem := next(filter(None, map(_find_text_problem, best_row)), ""):
        raise InputError(
            f"{path}, row {best_number}: the header contains {problem}. Save it as a csv in UTF-8."
        )
    missing = [column for column in columns if column not in best_row]
    raise InputError(
        f"{path}: no column {', '.join(missing)}; found {brief(', '.join(best_row)) or 'nothing'}. {remedy}"
    )


def check_unique(rows: pd.DataFrame, column: str, path: Path) -> None:
    """Refuse a csv that repeats a value of a column; the message names both rows."""
    repeats = rows[rows[column].duplicated()]
    if len(repeats):
        row, name = repeats[["row", column]].iloc[0]
        first = rows["row"][rows[column] == name].iloc[0]
        raise InputError(f"{path}, row {row}: {column} {brief(name)!r} repeats row {first}. Delete one.")


def check_filled(rows: pd.DataFrame, column: str, path: Path) -> None:
    """Refuse a csv with an empty cell in a column; the message names the first such row."""
    empty_rows = rows[rows[column] == ""]
    if len(empty_rows):
        raise InputError(
            f"{path}, row {empty_rows['row'].iloc[0]}: no {column} ({len(empty_rows)} such rows). Add it."
        )


def rescale_ratings(
    rows: pd.DataFrame,
    column: str,
    id_column: str,
    scale: tuple[float, float],
    path: Path,
    role: str,
    settings: tuple[str, str] = ("lowest", "highest"),
) -> pd.Series:
    """Rescale ratings linearly to [0, 1] from `scale`, the lower and upper end of their scale.

    Messages identify a row by its number and its value in `id_column`; `role` is the config group of the
    ratings (`scenes`, `words`), and `settings` its fields of the two ends, for messages.

    Raises:
        InputError: a rating is not a number or is outside the scale, or the ends of the scale are not finite
            and ascending.
    """
    lowest, highest = scale
    low_name, high_name = (f"{role}.{name}" for name in settings)
    if not (lowest < highest and math.isfinite(highest - lowest)):
        raise InputError(
            f"{low_name}={lowest:g}, {high_name}={highest:g}: expected finite numbers, the first "
            "below the second. Set both to the ends of the rating scale."
        )
    ratings = pd.to_numeric(rows[column], errors="coerce")
    has_comma = rows[column].str.fullmatch(DECIMAL_COMMA)
    for is_invalid, problem in (
        (has_comma, "a number with a decimal comma. Write decimal points throughout."),
        (ratings.isna(), "not a number. Correct or delete the row."),
        (
            ~ratings.between(lowest, highest),
            f"outside [{lowest:g}, {highest:g}]. Correct it, or set {low_name} and {high_name} to the ends "
            "of the scale.",
        ),
    ):
        if is_invalid.any():
            row, text, name = rows.loc[is_invalid, ["row", column, id_column]].iloc[0]
            suffix = f" ({is_invalid.sum()} such rows)" if is_invalid.sum() > 1 else ""
            raise InputError(
                f"{path}, row {row}: {column} {brief(text)!r} of {brief(name)!r}{suffix} is {problem}"
            )
    return (ratings - lowest) / (highest - lowest)
