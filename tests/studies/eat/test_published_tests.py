"""Test the readers of published association tests."""

import json

import pandas as pd
import pytest

from src.errors import InputError
from src.studies.eat.published_tests import SETS, read_tests

SEAT = {key: {"category": f"{key} name", "examples": [f"{key} a", f"{key} b"]} for key in SETS}
EXPECTED = [(f"{key} name", [f"{key} a", f"{key} b"]) for key in SETS]


def flat(**names):
    """Write a test in WEATHub's columns."""
    columns = {f"{key}.{field}": value for key, content in SEAT.items() for field, value in content.items()}
    return {**names, **columns}


HUB = [flat(language=language, weat=weat) for language in ("en", "ar") for weat in ("WEAT1", "WEAT2")]


def test_seat_writes_a_test_as_an_object_of_several_lines(tmp_path):
    path = tmp_path / "sent-weat1.jsonl"
    path.write_text(json.dumps(SEAT, indent=2))
    assert read_tests(path) == {"sent-weat1": EXPECTED}


@pytest.mark.parametrize("layout", ["parquet", "json", "jsonl"])
def test_weathub_has_a_row_per_test_and_language(tmp_path, layout):
    path = tmp_path / f"hub.{layout}"
    if layout == "parquet":
        pd.DataFrame(HUB).to_parquet(path)
    else:
        lines = "\n".join(map(json.dumps, HUB))
        path.write_text(json.dumps(HUB) if layout == "json" else lines)
    tests = read_tests(path)
    assert [*tests] == ["WEAT1 en", "WEAT2 en", "WEAT1 ar", "WEAT2 ar"]
    assert tests["WEAT2 ar"] == EXPECTED
    assert [*read_tests(path, ["ar"])] == ["WEAT1 ar", "WEAT2 ar"]


def test_a_repeated_text_counts_once_and_unnamed_tests_are_numbered(tmp_path):
    path = tmp_path / "two.json"
    repeated = SEAT | {"targ1": {"category": "x", "examples": ["a", " a ", "b"]}}
    path.write_text(json.dumps([SEAT, repeated]))
    tests = read_tests(path)
    assert [*tests] == ["two 1", "two 2"]
    assert tests["two 2"][0] == ("x", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no test in it"),
        ("[1]", "expected objects"),
        (json.dumps({"targ1": 3}), "expected category and examples"),
        (json.dumps(SEAT | {"attr2": {"category": "x", "examples": "abc"}}), "attr2: expected category and"),
        (json.dumps(SEAT | {"attr2": {"category": "x", "examples": [3]}}), "3 is not a text"),
        (json.dumps(SEAT | {"attr2": {"category": "x", "examples": [""]}}), "an empty text"),
        (json.dumps({key: SEAT[key] for key in SETS[:3]}), "attr2: expected category and examples"),
        (json.dumps([HUB[0], HUB[0]]), "'WEAT1 en' occurs twice"),
        (json.dumps(SEAT) + "\n{", "line 2: not JSON"),
    ],
)
def test_other_contents_are_refused(tmp_path, text, message):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_tests(path)


def test_absent_files_and_languages_are_refused(tmp_path):
    path = tmp_path / "hub.parquet"
    with pytest.raises(InputError, match="no such file. Set exp.file"):
        read_tests(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a Parquet file"):
        read_tests(path)
    pd.DataFrame(HUB).to_parquet(path)
    with pytest.raises(InputError, match="no test in de. Its languages: ar, en"):
        read_tests(path, ["de"])
