"""Read published association tests of texts: WEAT and SEAT as JSON, WEATHub as Parquet or JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from src.errors import InputError, brief, first_few
from src.stimuli.safe_yaml import parse_json
from src.stimuli.wordlists import normalise_text, read_text_file

# Sets X, Y, A and B in the files.
SETS = ("targ1", "targ2", "attr1", "attr2")
LAYOUT = (
    "Write targ1, targ2, attr1 and attr2, each with category and examples, as SEAT's JSON does, or columns "
    "targ1.category, targ1.examples and so on, as WEATHub's Parquet does."
)
SETTING = "exp.file"
# Name of a test -> category and texts of its four sets, in the order of `SETS`.
Tests = dict[str, list[tuple[str, list[str]]]]


def read_tests(path: Path, languages: Sequence[str] | None = None) -> Tests:
    """Read the tests of a file; a text that a set repeats counts once, as in SEAT's code.

    Rows of WEATHub are named by `weat` and `language`, a test without these by the file's stem, with its
    number if the file has several tests.

    Raises:
        InputError: the file is unreadable or has another layout, two tests have one name, or no test is in
            one of the languages.
    """
    records = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_json(path)
    if languages is not None:
        known = sorted({str(record["language"]) for record in records if "language" in record})
        records = [record for record in records if record.get("language") in languages]
        if absent := sorted({*languages} - {*known}):
            raise InputError(
                f"exp.languages: {path} has no test in {', '.join(absent)}. "
                f"Its languages: {first_few(known, 40) or 'not stated'}."
            )
    tests: Tests = {}
    for number, record in enumerate(records, 1):
        name = _name_test(record, path, number, len(records))
        if name in tests:
            raise InputError(f"{path}: the test {brief(name)!r} occurs twice. Delete one, or rename it.")
        tests[name] = [_read_set(record, key, f"{path}, {brief(name)}, {key}") for key in SETS]
    if not tests:
        raise InputError(f"{path}: no test in it. {LAYOUT}")
    return tests


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file. Set {SETTING} to an existing file.")
    try:
        rows = pd.read_parquet(path).to_dict("records")
    except Exception as error:  # pyarrow and pandas raise exceptions of any type over damaged files
        raise InputError(f"{path}: not a Parquet file ({brief(str(error))}). Write it again.") from None
    return [{str(key): value for key, value in row.items()} for row in rows]


def _read_json(path: Path) -> list[dict[str, Any]]:
    """Read an object, a list of objects, or an object per line."""
    text = read_text_file(path, SETTING)
    try:
        content = parse_json(text)
    except ValueError as error:
        # Only a file of several lines, each an object, may be JSON Lines.
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not isinstance(error, json.JSONDecodeError) or error.msg != "Extra data":
            raise InputError(f"{path}: not JSON ({brief(str(error), 300)}). Correct it.") from None
        content = [_read_line(line, path, number) for number, line in enumerate(lines, 1)]
    records = content if isinstance(content, list) else [content]
    if not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path}: expected objects, got {brief(str(content))!r}. {LAYOUT}")
    return records


def _read_line(line: str, path: Path, number: int) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise InputError(f"{path}, line {number}: not JSON ({brief(str(error), 300)}). Correct it.") from None


def _name_test(record: Mapping[str, Any], path: Path, number: int, count: int) -> str:
    names = [str(record[key]) for key in ("weat", "language") if key in record]
    return " ".join(names) or (path.stem if count == 1 else f"{path.stem} {number}")


def _read_set(record: Mapping[str, Any], key: str, location: str) -> tuple[str, list[str]]:
    """Return the category and the distinct texts of a set, nested or in two columns."""
    nested = record.get(key, {})
    if not isinstance(nested, dict):
        raise InputError(f"{location}: expected category and examples, got {brief(str(nested))!r}. {LAYOUT}")
    category = nested.get("category", record.get(f"{key}.category"))
    examples = nested.get("examples", record.get(f"{key}.examples"))
    if category is None or isinstance(examples, str | None) or not isinstance(examples, Iterable):
        raise InputError(f"{location}: expected category and examples. {LAYOUT}")
    texts = [normalise_text(text, location, "text", LAYOUT) for text in examples]
    return normalise_text(category, location, "category", LAYOUT), [*dict.fromkeys(texts)]
