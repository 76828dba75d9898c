"""Read pictures inside Parquet files and tars (WebDataset) in place, without unpacking them.

A path may continue below such a file: `FILE.tar/MEMBER`, and `FILE.parquet/COLUMN/ROW` with rows counted from
0. Only regular members of an uncompressed tar are read, at their position in the file, so no name of a member
is ever used as the name of a file.
"""

import math
import os
import re
import tarfile
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from src.errors import InputError, brief
from src.stimuli.safe_paths import check_paths
from src.stimuli.safe_yaml import is_text
from src.stimuli.unpack import MAX_MEMBERS, BoundedTarInfo

SHARD = re.compile(r"\.(?:tar|parquet)/")
COMPRESSED = re.compile(r"\.(?:tar\.(?!(?:tar|parquet)/)\w+|tgz)/")
MAX_PICTURE_BYTES = 1 << 29  # maximum number of bytes of a picture in a shard
BATCH_BYTES = 8 << 20  # approximate number of bytes of pictures to read from a Parquet file at once
MAX_BATCH_ROWS = 1024
MAX_BATCHES = 4  # maximum number of batches of a Parquet file in memory
BUFFER_BYTES = 1 << 20  # of a column of a Parquet file to read ahead
# Size and modification time of a shard, which tell a changed file from the one that was indexed.
State = tuple[int, int]


def split_path(path: str | Path) -> tuple[Path, str] | None:
    """Split a path below an existing shard into the shard and the member; return None for other paths.

    Raise `OSError` for a path below an existing compressed tar.
    """
    text = str(path)
    for match in COMPRESSED.finditer(text):
        if os.path.isfile(text[: match.end() - 1]):  # noqa: PTH113  (as below)
            name = brief(text[: match.end() - 1])
            raise OSError(f"a compressed tar: unpack it, or pack it uncompressed ({name})")
    for match in SHARD.finditer(text):
        shard = text[: match.end() - 1]
        if os.path.isfile(shard):  # noqa: PTH113  (accepts names too long for the file system)
            return Path(shard), text[match.end() :]
    return None


def read_member(shard: Path, member: str) -> bytes:
    """Read the bytes of a picture in a shard.

    Raises:
        OSError: the shard has no such member, is damaged or compressed, or the picture has more than
            `MAX_PICTURE_BYTES`.
    """
    if shard.suffix == ".tar":
        return _read_tar_member(shard, member)
    column, row = _split_row(member)
    return _open_column(str(shard), _read_state(shard), column, os.getpid()).read(row)


def has_member(shard: Path, member: str) -> bool:
    """Return whether a shard has a member, without reading it; raise the errors of `read_member`."""
    if shard.suffix == ".tar":
        return member in _index_tar(str(shard), _read_state(shard))
    column, row = _split_row(member)
    n_rows: int = _open_column(str(shard), _read_state(shard), column, os.getpid()).n_rows
    return row < n_rows


def _split_row(member: str) -> tuple[str, int]:
    """Split COLUMN/ROW; raise OSError for any other member."""
    column, _, row = member.rpartition("/")
    if not column or not re.fullmatch(r"\d{1,18}", row, re.ASCII):
        raise OSError(f"{brief(member)!r} is not COLUMN/ROW of a Parquet file")
    return column, int(row)


def list_tar_members(path: Path, setting: str) -> list[str]:
    """List the regular files of a tar in its order.

    Raises:
        InputError: the file is missing, damaged or compressed, or a member's name leads out of a folder, is
            no UTF-8, or occurs twice. `setting` names the setting of the tar, for messages.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file. Set {setting} to the tar of the pictures.")
    try:
        names = list(_index_tar(str(path), _read_state(path)))
    except OSError as error:
        raise InputError(f"{path}: {brief(str(error))}. Fetch it again, or unpack it.") from None
    bad_row = next((row for row, name in enumerate(names, start=1) if not is_text(name)), 0)
    if bad_row:
        raise InputError(f"{path}, row {bad_row}: a member's name is not UTF-8. Pack the pictures again.")
    check_paths(pd.DataFrame({"row": range(1, len(names) + 1), "name": names}), "name", path, setting)
    return names


def read_texts(path: Path, columns: Sequence[str], remedy: str) -> pd.DataFrame:
    """Read columns of texts of a Parquet file; null becomes an empty text.

    Raises:
        InputError: the file is missing or damaged, or a column is missing, or holds anything but texts, whole
            numbers or nulls. `remedy` is the last sentence of the message.
    """
    if not path.is_file():  # reading a pipe would block
        raise InputError(f"{path}: no such file. {remedy}")
    try:
        with pq.ParquetFile(path) as file:
            names = [str(name) for name in file.schema_arrow.names]
            missing = [column for column in columns if column not in names]
            repeated = [column for column in columns if names.count(column) > 1]
            table = None if missing or repeated else file.read(columns=list(columns))
            if table is not None:
                table.validate(full=True)
    except Exception as error:  # pyarrow raises exceptions of any type over damaged files
        raise InputError(
            f"{path}: not a readable Parquet file ({brief(str(error))}). Fetch it again. {remedy}"
        ) from None
    if missing or repeated:
        problem = f"no column {', '.join(missing)}" if missing else f"several columns {', '.join(repeated)}"
        raise InputError(f"{path}: {problem}; found {brief(', '.join(names))}. {remedy}")
    assert table is not None
    return pd.DataFrame({column: _convert_texts(path, column, table, remedy) for column in columns})


def _convert_texts(path: Path, column: str, table: Any, remedy: str) -> list[str]:
    texts = []
    for row, value in enumerate(table.column(column).to_pylist()):
        if not isinstance(value, str | int | None) or isinstance(value, bool):
            raise InputError(
                f"{path}, row {row}: expected a text in column {column}, got {brief(repr(value), 50)}. "
                f"{remedy}"
            )
        texts.append("" if value is None else str(value).strip())
    return texts


def _read_state(path: Path) -> State:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _read_tar_member(path: Path, member: str) -> bytes:
    try:
        offset, size = _index_tar(str(path), _read_state(path))[member]
    except KeyError:
        raise OSError(f"no regular file {brief(member)!r} in {path.name}") from None
    _check_size(size)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        content = os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)
    if len(content) != size:
        raise OSError(f"{path.name} ends within {brief(member)!r}")
    return content


@lru_cache(maxsize=256)
def _index_tar(path: str, _: State) -> dict[str, tuple[int, int]]:
    """Return the position and the size in bytes of each regular file of a tar."""
    index: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(path, "r:", tarinfo=BoundedTarInfo) as tar:
            while (entry := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # else every entry stays in memory
                if not entry.isreg() or entry.issparse():
                    continue
                name = entry.name.removeprefix("./")
                if name in index:
                    raise tarfile.ReadError(f"the member {brief(name)!r} occurs twice")
                if len(index) == MAX_MEMBERS:
                    raise tarfile.ReadError(f"more than {MAX_MEMBERS} members")
                index[name] = entry.offset_data, entry.size
    except OSError:
        raise
    except Exception as error:  # tarfile raises exceptions of any type over damaged headers
        raise OSError(f"not an uncompressed tar, or damaged ({brief(str(error) or repr(error))})") from None
    return index


def _check_size(size: int) -> None:
    if size > MAX_PICTURE_BYTES:
        raise OSError(f"{size:,} bytes; the limit is {MAX_PICTURE_BYTES:,}")


class _PictureColumn:
    """Column of pictures of a Parquet file, read in batches of rows, of which the last stay in memory."""

    def __init__(self, path: str, column: str) -> None:
        # Buffered, so that a row group is read page by page, not as a whole.
        self.file = pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False)
        metadata = self.file.metadata
        paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        # Hugging Face stores a picture as a struct of its bytes and its path, others as bytes.
        leaf = next(name for name in (f"{column}.bytes", column) if name in paths)
        self.leaf, self.index, self.is_struct = leaf, paths.index(leaf), leaf != column
        self.column, self.n_rows = column, metadata.num_rows
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self.group_starts = np.cumsum([0, *sizes])
        self.batches: dict[int, list[bytes | None]] = {}  # first row -> pictures
        self.group, self.next_row = -1, 0
        self.iterator: Iterator[Any] = iter(())
        self.lock = threading.Lock()

    def read(self, row: int) -> bytes:
        """Read the picture of a row; raise OSError if it is absent, too large or unreadable."""
        if row >= self.n_rows:
            raise OSError(f"no row {row}: the file has {self.n_rows} rows, counted from 0")
        with self.lock:
            try:
                content = self._find(row) or self._read_up_to(row)
            except Exception as error:  # pyarrow raises exceptions of any type over damaged files
                self.group = -1
                raise OSError(f"row {row} cannot be read ({brief(str(error))})") from None
        if not isinstance(content, bytes):
            raise OSError(f"row {row} has no picture in column {self.column}")
        _check_size(len(content))
        return content

    def _find(self, row: int) -> bytes | None:
        batches = self.batches.items()
        return next((b[row - first] for first, b in batches if first <= row < first + len(b)), None)

    def _read_up_to(self, row: int) -> bytes | None:
        """Read the following batches up to the one with a row, from the start of its row group if needed."""
        group = int(np.searchsorted(self.group_starts, row, side="right")) - 1
        if group != self.group or row < self.next_row:
            rows = self.file.metadata.row_group(group)
            row_bytes = rows.column(self.index).total_uncompressed_size / rows.num_rows
            size = min(MAX_BATCH_ROWS, max(1, math.floor(BATCH_BYTES / max(row_bytes, 1))))
            options = {"batch_size": size, "row_groups": [group], "columns": [self.leaf]}
            self.iterator = self.file.iter_batches(**options, use_threads=False)
            self.group, self.next_row = group, int(self.group_starts[group])
        while row >= self.next_row:
            batch = next(self.iterator)
            column = batch.column(0)
            column = column.field("bytes") if self.is_struct else column
            self.batches[self.next_row] = column.to_pylist()
            self.next_row += len(batch)
            while len(self.batches) > MAX_BATCHES:
                del self.batches[next(iter(self.batches))]
        return self._find(row)


@lru_cache(maxsize=8)
def _open_column(path: str, _: State, column: str, _process: int) -> _PictureColumn:
    """Open a column of pictures; each process, given by its id, has separate open files and locks.

    Raises:
        OSError: the file is damaged, or the column holds neither bytes nor pictures of Hugging Face.
    """
    try:
        return _PictureColumn(path, column)
    except StopIteration:
        raise OSError(f"no column {brief(column)!r} of pictures") from None
    except OSError:
        raise
    except Exception as error:  # pyarrow raises exceptions of any type over damaged files
        raise OSError(f"not a readable Parquet file ({brief(str(error))})") from None
