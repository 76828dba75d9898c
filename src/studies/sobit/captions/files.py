"""Parquet files of captions: which are meant, what their footers say, and which column it is."""

from __future__ import annotations

import glob
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from src.errors import InputError
from src.studies.sobit.captions import conversion

SUFFIX = ".parquet"
# What a column of captions is called where nobody says, and a file has several columns of text.
USUAL = ("caption", "captions", "text")
# What pyarrow raises on bytes that are no Parquet: its own errors are of these two, but for one.
DAMAGE = (OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True)
class File:
    """A file of captions as it is found.

    Attributes:
        path: of it.
        rows: that its footer promises.
        columns: name -> type.
        problem: why it cannot be read; empty where it can.
        about: size, time of the last change, and SHA-256 of its footer, which holds sizes, places and mostly
            extremes of all columns: of a file of gigabytes that is read in no time.
    """

    path: Path
    rows: int = 0
    columns: dict[str, pa.DataType] = field(default_factory=dict)
    problem: str = ""
    about: dict[str, object] = field(default_factory=dict)


def found(path: str) -> list[Path]:
    """The files that are meant by a file, a folder (with those below it) or a pattern, in order.

    Raises:
        InputError: there are none.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        files = [file for file in place.rglob(f"*{SUFFIX}") if file.is_file()]
    elif place.is_file():
        return [place]
    else:
        # Path.glob takes no pattern of an absolute path.
        matched = map(Path, glob.glob(str(place), recursive=True))  # noqa: PTH207
        files = [file for file in matched if file.is_file()]
    if not files:
        what = f"holds no {SUFFIX} file" if place.is_dir() else "no such file or folder, and no file fits it"
        others = (
            sorted(file for file in place.rglob("*") if conversion.of_file(file)) if place.is_dir() else []
        )
        if others:
            raise InputError(f"path={path}: {what}. Of {len(others)} others, {conversion.of_file(others[0])}")
        raise InputError(
            f"path={path}: {what}. Name a Parquet file, a folder of them, or a pattern in quotes."
        )
    return sorted(files)


def opened(path: Path) -> File:
    """What a file's footer says; what is no Parquet is given with its problem."""
    about: dict[str, object] = {}
    try:
        stat = path.stat()
        changed = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds")
        about = {"bytes": stat.st_size, "changed": changed, "footer_sha256": _footer(path)}
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            columns = dict(zip(schema.names, schema.types, strict=True))
            rows = file.metadata.num_rows
            groups = sum(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
            if rows != groups:
                return File(
                    path, problem=f"its footer promises {rows} rows and lists {groups}: damaged", about=about
                )
            return File(path, rows, columns, about=about)
    except DAMAGE as error:
        return File(path, problem=str(error).splitlines()[0], about=about)


def _footer(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 8:
            raise ValueError(f"{size} bytes are no Parquet file")
        file.seek(size - 8)
        (length,) = struct.unpack("<I", file.read(4))
        file.seek(max(0, size - 8 - length))
        return hashlib.sha256(file.read(length)).hexdigest()


def column_of(files: Sequence[File], wanted: str) -> str:
    """The column of captions, the same in every file that can be read.

    Args:
        files: all of them.
        wanted: its name; empty: the only column of text, or the one that is called as captions mostly are.

    Raises:
        InputError: no file can be read, one lacks the column, it is text in none, or it is not clear which.
    """
    readable = [file for file in files if not file.problem]
    if not readable:
        if other := next(filter(None, (conversion.of_file(file.path) for file in files)), ""):
            raise InputError(other)
        first = f"{files[0].path}: {files[0].problem}"
        raise InputError(
            f"none of {len(files)} files can be read; the first: {first}. Are they Parquet? "
            "Name others: path=FILE."
        )
    column = wanted or _obvious(readable[0])
    for file in readable:
        if column not in file.columns:
            raise InputError(f"{file.path}: no column {column}. {_listed(file)} Say text_column=NAME.")
    if not any(is_text(file.columns[column]) for file in readable):
        kind = readable[0].columns[column]
        if is_list(kind):
            raise InputError(
                f"{readable[0].path}: column {column} holds {kind}, several captions a row. "
                f"{conversion.of_lists(readable[0].path, column)}"
            )
        raise InputError(f"{readable[0].path}: column {column} holds {kind}, no text. {_listed(readable[0])}")
    return column


def _obvious(file: File) -> str:
    texts = [name for name, kind in file.columns.items() if is_text(kind)]
    usual = [name for name in texts if name.lower() in USUAL]
    lists = [name for name, kind in file.columns.items() if is_list(kind)]
    for choice in (texts, usual, lists if not texts else []):
        if len(choice) == 1:
            return choice[0]
    problem = "several columns hold text" if texts else "no column holds text"
    raise InputError(f"{file.path}: {problem}. {_listed(file)} Say text_column=NAME.")


def _listed(file: File) -> str:
    return "It has " + (", ".join(f"{name} ({kind})" for name, kind in file.columns.items()) or "none") + "."


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column of a type holds lists of texts."""
    of = pa.types
    listed = of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind)
    return bool(listed and is_text(kind.value_type))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of a type may hold texts: strings or bytes, in a dictionary or not."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    of = pa.types
    strings = of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind)
    return bool(strings or of.is_binary(kind) or of.is_large_binary(kind) or of.is_binary_view(kind))
