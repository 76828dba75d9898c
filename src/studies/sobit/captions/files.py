"""Find Parquet files of captions, read their footers, and choose the column of captions."""

import glob
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from src.errors import InputError

SUFFIX = ".parquet"
# Default names of the column of captions in a file with several columns of text.
USUAL_NAMES = ("caption", "captions", "text")
# Errors of pyarrow on bytes that are not Parquet: all but one derive from the first two.
DAMAGE = (OSError, ValueError, pa.ArrowException)
STRINGS = {pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()}
# Suffix -> kind of file, and polars code that reads it; every cell of a csv stays text.
CONVERSIONS = {
    ".csv": ("csv", "pl.scan_csv({path}, infer_schema=False).sink_parquet({target})"),
    ".tsv": (
        "tsv",
        'pl.scan_csv({path}, separator="\\t", quote_char=None, infer_schema=False).sink_parquet({target})',
    ),
    ".jsonl": ("JSON lines", "pl.scan_ndjson({path}, infer_schema_length=None).sink_parquet({target})"),
    ".ndjson": ("JSON lines", "pl.scan_ndjson({path}, infer_schema_length=None).sink_parquet({target})"),
    # COCO has its captions under `annotations`.
    ".json": (
        "JSON",
        "import json; rows = json.load(open({path})); "
        'pl.DataFrame(rows["annotations"] if "annotations" in rows else rows).write_parquet({target})',
    ),
    ".txt": ("text", 'pl.DataFrame({{"caption": open({path}).read().splitlines()}}).write_parquet({target})'),
}
EXPLODE = "pl.scan_parquet({path}).select({column}).explode({column}).sink_parquet({target})"


@dataclass(frozen=True)
class File:
    """A file of captions."""

    path: Path
    rows: int = 0  # number of rows according to its footer
    columns: dict[str, pa.DataType] = field(default_factory=dict)  # name -> type
    problem: str = ""  # reason why it cannot be read; empty where it can
    # Size, time of the last change, and SHA-256 of its footer. A footer has sizes, offsets and most extremes
    # of all columns, and is fast to read in a file of gigabytes.
    about: dict[str, object] = field(default_factory=dict)


def matching_files(path: str) -> list[Path]:
    """Return the files of a path (file, folder with subfolders, or pattern), in order.

    Raises:
        InputError: no file matches.
    """
    location = Path(path).expanduser()
    if location.is_file():
        return [location]
    is_folder = location.is_dir()
    # Path.glob accepts no absolute pattern.
    matches = map(Path, glob.glob(str(location), recursive=True))  # noqa: PTH207
    candidates = location.rglob(f"*{SUFFIX}") if is_folder else matches
    if files := sorted(file for file in candidates if file.is_file()):
        return files
    problem = f"holds no {SUFFIX} file" if is_folder else "no such file or folder, and no file matches it"
    remedy = "Name a Parquet file, a folder of them, or a pattern in quotes."
    if others := sorted(filter(conversion_of_file, location.rglob("*"))):
        remedy = f"Among {len(others)} other files: {conversion_of_file(others[0])}"
    raise InputError(f"path={path}: {problem}. {remedy}")


def read_footer(path: Path) -> File:
    """Read the footer of a file; record a problem if the file is not valid Parquet."""
    about: dict[str, object] = {}
    try:
        stat = path.stat()
        changed = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds")
        about = {"bytes": stat.st_size, "changed": changed, "footer_sha256": _footer_hash(path)}
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            columns = dict(zip(schema.names, schema.types, strict=True))
            rows = file.metadata.num_rows
            groups = sum(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
            if rows != groups:
                raise ValueError(f"damaged: its footer states {rows} rows, its row groups have {groups}")
            return File(path, rows, columns, about=about)
    except DAMAGE as error:
        return File(path, problem=str(error).splitlines()[0], about=about)


def _footer_hash(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 8:
            raise ValueError(f"not Parquet: only {size} bytes")
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        return hashlib.sha256(file.read(length)).hexdigest()


def caption_column(files: Sequence[File], requested: str) -> str:
    """Return the column of captions, the same in every readable file.

    If `requested` is empty, it is the only column of text, or the one with a default name.

    Raises:
        InputError: no file can be read, a file lacks the column, it is text in none, or it is ambiguous.
    """
    readable = [file for file in files if not file.problem]
    if not readable:
        if conversion_hint := next(filter(None, (conversion_of_file(file.path) for file in files)), ""):
            raise InputError(conversion_hint)
        first = f"{files[0].path}: {files[0].problem}"
        raise InputError(
            f"none of {len(files)} files can be read; the first: {first}. Are they Parquet? "
            "Name others: path=FILE."
        )
    column = requested or _default_column(readable[0])
    for file in readable:
        if column not in file.columns:
            raise InputError(f"{file.path}: no column {column}. {_listing(file)} Set text_column=NAME.")
    if not any(is_text(file.columns[column]) for file in readable):
        dtype = readable[0].columns[column]
        if is_list(dtype):
            raise InputError(
                f"{readable[0].path}: column {column} holds {dtype}, several captions per row. "
                f"{_conversion(readable[0].path, EXPLODE, column)}"
            )
        raise InputError(f"{readable[0].path}: column {column} is {dtype}, not text. {_listing(readable[0])}")
    return column


def _default_column(file: File) -> str:
    texts = [name for name, kind in file.columns.items() if is_text(kind)]
    usual = [name for name in texts if name.lower() in USUAL_NAMES]
    lists = [name for name, kind in file.columns.items() if is_list(kind)]
    for choice in (texts, usual, lists if not texts else []):
        if len(choice) == 1:
            return choice[0]
    problem, remedy = "several columns hold text", "Set text_column=NAME."
    if not texts:
        problem, remedy = "no column holds text", "Write one that has a caption in each row."
    raise InputError(f"{file.path}: {problem}. {_listing(file)} {remedy}")


def _listing(file: File) -> str:
    return "It has " + (", ".join(f"{name} ({kind})" for name, kind in file.columns.items()) or "none") + "."


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column type holds lists of texts."""
    types = pa.types
    is_list_type = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list_type and is_text(kind.value_type))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column type may hold texts: strings or bytes, in a dictionary or not."""
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in STRINGS


def conversion_of_file(path: Path) -> str:
    """Return how to convert a file to Parquet; an empty string if its suffix is unknown."""
    compressed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if compressed else path).suffix.lower()
    # Of compressed files, polars reads csv and JSON lines.
    if suffix not in CONVERSIONS or (compressed and suffix in (".json", ".txt")):
        return ""
    kind, code = CONVERSIONS[suffix]
    return f"{path}: captions are read from Parquet, and this is {kind}. {_conversion(path, code)}"


def _conversion(path: Path, code: str, column: str = "") -> str:
    suffix = ".parquet" if path.suffix != ".parquet" else "-single.parquet"
    target = path.with_name(path.name.split(".")[0] + suffix)
    # Double quotes, because the shell quotes are single.
    values = {"path": str(path), "target": str(target), "column": column}
    filled = code.format(**{name: json.dumps(text) for name, text in values.items()})
    command = f"python -c {shlex.quote(f'import polars as pl; {filled}')}"
    return f"Convert it: {command} and then set path={target}."
