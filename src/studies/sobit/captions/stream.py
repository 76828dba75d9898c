"""Captions out of Parquet files, a few thousand at a time; what cannot be read is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from src.studies.sobit.captions.files import DAMAGE, File, is_text

# Captions counted at once, and bytes of them: more would be memory without speed.
BATCH, BYTES = 2**14, 2**24
# Read of a file at once: a row group need not fit into memory.
BUFFER = 2**20
NULL, NO_TEXT, EMPTY, NO_UTF8, UNREADABLE = "null", "not_text", "empty", "invalid_utf8", "unreadable"
BROKEN = (NULL, NO_TEXT, EMPTY, NO_UTF8, UNREADABLE)


def captions(file: File, column: str, broken: Counter[str], problems: dict[str, str]) -> Iterator[pl.Series]:
    """A file's captions in batches, without those that are none.

    Args:
        file: one that can be opened.
        column: of the captions.
        broken: rows that are no caption, by kind; added to.
        problems: file -> why rows of it could not be read; added to.
    """
    for cells in _cells(file, column, broken, problems):
        yield valid(cells, broken)


def _cells(file: File, column: str, broken: Counter[str], problems: dict[str, str]) -> Iterator[pa.Array]:
    try:
        reader = pq.ParquetFile(file.path, buffer_size=BUFFER, pre_buffer=False)
    except DAMAGE as error:  # gone since it was opened first
        broken[UNREADABLE] += file.rows
        problems[str(file.path)] = str(error).splitlines()[0]
        return
    with reader:
        for group in range(reader.num_row_groups):
            left = reader.metadata.row_group(group).num_rows
            try:
                for batch in reader.iter_batches(BATCH, [group], [column], use_threads=False):
                    left -= len(batch)
                    yield batch.column(0)
            except DAMAGE as error:
                broken[UNREADABLE] += left
                problems.setdefault(str(file.path), f"row group {group}: {str(error).splitlines()[0]}")
                continue
            if left:  # a damaged page may end early without an error
                broken[UNREADABLE] += left
                problems.setdefault(
                    str(file.path), f"row group {group}: {left} rows of its footer are not there"
                )


def valid(cells: pa.Array, broken: Counter[str]) -> pl.Series:
    """The captions among cells; the others are counted."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    broken[NULL] += cells.null_count
    if not is_text(cells.type):
        broken[NO_TEXT] += len(cells) - cells.null_count
        return pl.Series([], dtype=pl.String)
    texts = _decoded(cells.cast(pa.large_binary()).drop_null(), broken)
    filled = texts.filter(texts.str.strip_chars() != "")
    broken[EMPTY] += len(texts) - len(filled)
    return filled


def _decoded(cells: pa.Array, broken: Counter[str]) -> pl.Series:
    # Columns of strings too: their bytes are not looked at when they are read.
    try:
        return _series(cells.cast(pa.large_string()))
    except pa.ArrowInvalid:
        texts = [text for cell in cells if (text := _text(cell.as_py())) is not None]
        broken[NO_UTF8] += len(cells) - len(texts)
        return pl.Series(texts, dtype=pl.String)


def _series(cells: pa.Array) -> pl.Series:
    made: Any = pl.from_arrow(cells)
    return pl.Series(made)


def _text(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None


def gathered(batches: Iterable[pl.Series]) -> Iterator[pl.Series]:
    """The same captions in batches of one size: row groups may be of any, captions of any length."""
    waiting: list[pl.Series] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= BATCH:
            yield from _cut(pl.concat(waiting))
            waiting = []
    if waiting:
        yield from _cut(pl.concat(waiting))


def _cut(captions: pl.Series) -> Iterator[pl.Series]:
    pieces = 1 + int(captions.estimated_size()) // BYTES
    step = max(1, -(-len(captions) // pieces))
    for start in range(0, len(captions), step):
        yield captions.slice(start, step)
