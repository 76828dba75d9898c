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
# Errors that pyarrow raises for bytes that are not Parquet; most derive from the first two.
DAMAGE = (OSError, ValueError, pa.ArrowException)
TEXT_TYPES = {
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
}
# Suffix -> kind of file, and polars code that converts it to Parquet; every cell of a csv stays text.
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
# Polars code that splits a column of lists into rows.
EXPLODE = "pl.scan_parquet({path}).select({column}).explode({column}).sink_parquet({target})"


@dataclass(frozen=True)
class CaptionFile:
    """A file of captions."""

    path: Path
    rows: int = 0  # number of rows according to its footer
    columns: dict[str, pa.DataType] = field(default_factory=dict)  # name -> type
    problem: str = ""  # reason why it cannot be read; empty if it can
    # Size, time of the last change, and SHA-256 of the footer. A footer has sizes and offsets of all columns,
    # and is read quickly from a file of gigabytes.
    facts: dict[str, object] = field(default_factory=dict)


def list_files(path: str) -> list[Path]:
    """List the files of a path (a file, a folder with its subfolders, or a pattern), sorted.

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
    problem = f"contains no {SUFFIX} file" if is_folder else "no file or folder has this name or pattern"
    remedy = "Name a Parquet file, a folder of them, or a pattern in quotes."
    if others := sorted(filter(suggest_conversion, location.rglob("*"))):
        remedy = f"First of {len(others)} files that can be converted: {suggest_conversion(others[0])}"
    raise InputError(f"path={path}: {problem}. {remedy}")


def read_footer(path: Path) -> CaptionFile:
    """Read the footer of a file; record a problem if the file is not valid Parquet."""
    facts: dict[str, object] = {}
    try:
        stat = path.stat()
        changed = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds")
        facts = {"bytes": stat.st_size, "changed": changed, "footer_sha256": _hash_footer(path)}
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            columns = dict(zip(schema.names, schema.types, strict=True))
            rows = file.metadata.num_rows
            row_groups = map(file.metadata.row_group, range(file.num_row_groups))
            if rows != (counted := sum(row_group.num_rows for row_group in row_groups)):
                raise ValueError(f"damaged: its footer states {rows} rows, its row groups have {counted}")
            return CaptionFile(path, rows, columns, facts=facts)
    except DAMAGE as error:
        return CaptionFile(path, problem=str(error).splitlines()[0], facts=facts)


def _hash_footer(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 8:
            raise ValueError(f"not Parquet: only {size} bytes")
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        return hashlib.sha256(file.read(length)).hexdigest()


def choose_column(files: Sequence[CaptionFile], requested: str) -> str:
    """Select the column of captions, the same in every readable file.

    If `requested` is empty, the column is the only one of text, or the only one with a name of `USUAL_NAMES`.

    Raises:
        InputError: no file can be read, a file lacks the column, no file has text in it, or the choice is
            ambiguous.
    """
    readable = [file for file in files if not file.problem]
    if not readable:
        if conversion_hint := next(filter(None, (suggest_conversion(file.path) for file in files)), ""):
            raise InputError(conversion_hint)
        first = f"{files[0].path}: {files[0].problem}"
        raise InputError(
            f"none of {len(files)} files can be read; the first: {first}. Are they Parquet? "
            "Name others: path=FILE."
        )
    column = requested or _choose_default(readable[0])
    for file in readable:
        if column not in file.columns:
            raise InputError(
                f"{file.path}: no column {column}. {_describe_columns(file)} Set text_column=NAME."
            )
    if not any(is_text(file.columns[column]) for file in readable):
        dtype = readable[0].columns[column]
        if is_text_list(dtype):
            raise InputError(
                f"{readable[0].path}: column {column} is {dtype}, several captions per row. "
                f"{_format_conversion(readable[0].path, EXPLODE, column)}"
            )
        raise InputError(
            f"{readable[0].path}: column {column} is {dtype}, not text. {_describe_columns(readable[0])}"
        )
    return column


def _choose_default(file: CaptionFile) -> str:
    texts = [name for name, kind in file.columns.items() if is_text(kind)]
    usual = [name for name in texts if name.lower() in USUAL_NAMES]
    lists = [name for name, kind in file.columns.items() if is_text_list(kind)]
    for candidates in (texts, usual, lists if not texts else []):
        if len(candidates) == 1:
            return candidates[0]
    problem, remedy = "several columns are text", "Set text_column=NAME."
    if not texts:
        problem, remedy = "no column is text", "Write a file with a column of captions, one in each row."
    raise InputError(f"{file.path}: {problem}. {_describe_columns(file)} {remedy}")


def _describe_columns(file: CaptionFile) -> str:
    return "It has " + (", ".join(f"{name} ({kind})" for name, kind in file.columns.items()) or "none") + "."


def is_text_list(kind: pa.DataType) -> bool:
    """Return whether the cells of a column type are lists of texts."""
    types = pa.types
    is_list_type = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list_type and is_text(kind.value_type))


def is_text(kind: pa.DataType) -> bool:
    """Return whether the cells of a column type may be texts: strings or bytes, in a dictionary or not."""
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in TEXT_TYPES


def suggest_conversion(path: Path) -> str:
    """Return a message on how to convert a file to Parquet; an empty string if its suffix is unknown."""
    is_compressed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if is_compressed else path).suffix.lower()
    # Polars reads only csv and JSON lines from compressed files.
    if suffix not in CONVERSIONS or (is_compressed and suffix in (".json", ".txt")):
        return ""
    kind, code = CONVERSIONS[suffix]
    return f"{path}: expected Parquet, got {kind}. {_format_conversion(path, code)}"


def _format_conversion(path: Path, code: str, column: str = "") -> str:
    suffix = ".parquet" if path.suffix != ".parquet" else "-single.parquet"
    target = path.with_name(path.name.split(".")[0] + suffix)
    # JSON quotes texts doubly: the shell's quotes are single.
    values = {"path": str(path), "target": str(target), "column": column}
    filled = code.format(**{name: json.dumps(text) for name, text in values.items()})
    command = f"python -c {shlex.quote(f'import polars as pl; {filled}')}"
    return f"Convert it: {command} and then set path={target}."
