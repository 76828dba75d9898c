"""Commands that make Parquet files of captions out of other kinds of files."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

# Suffix -> what the file is, and how polars reads it; every cell of a csv stays text.
READ = {
    ".csv": ("csv", "pl.scan_csv({path}, infer_schema=False).sink_parquet({target})"),
    ".tsv": (
        "tsv",
        'pl.scan_csv({path}, separator="\\t", quote_char=None, infer_schema=False).sink_parquet({target})',
    ),
    ".jsonl": ("JSON lines", "pl.scan_ndjson({path}, infer_schema_length=None).sink_parquet({target})"),
    ".ndjson": ("JSON lines", "pl.scan_ndjson({path}, infer_schema_length=None).sink_parquet({target})"),
    ".json": ("JSON", "import json; pl.DataFrame(json.load(open({path}))).write_parquet({target})"),
    ".txt": ("text", 'pl.DataFrame({{"caption": open({path}).read().splitlines()}}).write_parquet({target})'),
}
EXPLODE = "pl.scan_parquet({path}).select({column}).explode({column}).sink_parquet({target})"


def of_file(path: Path) -> str:
    """Return how a file of another kind becomes Parquet; empty where its suffix tells no kind."""
    packed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    # Of what is packed, polars reads csv and lines of JSON.
    if suffix not in READ or (packed and suffix in (".json", ".txt")):
        return ""
    kind, code = READ[suffix]
    return f"{path}: captions are read from Parquet, and this is {kind}. {_converted(path, code)}"


def of_lists(path: Path, column: str) -> str:
    """Return how a Parquet file with lists of captions becomes one with a caption a row."""
    return _converted(path, EXPLODE, column)


def _converted(path: Path, code: str, column: str = "") -> str:
    ends = ".parquet" if path.suffix != ".parquet" else "-single.parquet"
    target = path.with_name(path.name.split(".")[0] + ends)
    # In double quotes, as the shell's are single.
    given = {"path": str(path), "target": str(target), "column": column}
    filled = code.format(**{name: json.dumps(text) for name, text in given.items()})
    command = f"python -c {shlex.quote(f'import polars as pl; {filled}')}"
    return f"Convert it: {command} and then say path={target}."
