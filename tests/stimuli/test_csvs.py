"""Csv files of others: what an unused cell may hold, and what a used one may not."""

import json

import pytest

from src.errors import InputError, brief
from src.stimuli.csvs import read_csv
from src.studies.subtler import items
from tests.fuzz.answers import asked
from tests.stimuli import drawn
from tests.stimuli.layouts import load

LONG = 140_000
UNUSED = {
    "longer than a book": ("1;" * LONG).encode(),
    "JSON over several lines": ('"' + json.dumps({"a": "b\n"}, indent=1).replace('"', '""') + '"').encode(),
    "Latin-1": "Curaçao".encode("latin-1"),
    "a NUL": b"a\0b",
}


@pytest.fixture
def csv(tmp_path):
    def written(*lines: bytes):
        path = tmp_path / "a.csv"
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    return written


@pytest.mark.parametrize("unused", UNUSED.values(), ids=UNUSED)
def test_an_unused_cell_may_hold_anything(csv, unused):
    rows = read_csv(csv(b"file,outline,race", b"a.jpg," + unused + b",A", b"b.jpg,,B"), ["file", "race"], "")
    assert rows.to_dict("list") == {"file": ["a.jpg", "b.jpg"], "race": ["A", "B"], "row": [2, 3]}


@pytest.mark.parametrize("unused", UNUSED.values(), ids=UNUSED)
def test_an_unused_cell_costs_no_face_and_no_item(tmp_path, unused):
    drawn.folder(tmp_path)
    faces = tmp_path / "faces.csv"
    faces.write_bytes(faces.read_bytes().replace(b"Oslo", unused, 1))
    assert len(load("folder", tmp_path)[0]) == 12
    asked(tmp_path)
    answers = tmp_path / "items.csv"
    lines = answers.read_bytes().strip().split(b"\n")
    lines[:2] = [lines[0].strip() + b",trace", lines[1].strip() + b"," + unused]
    answers.write_bytes(b"\n".join(lines[:2] + [line.strip() + b"," for line in lines[2:]]))
    assert len(items.read(answers)) == len(lines) - 1


@pytest.mark.parametrize(
    ("used", "message"),
    [
        (b"a" * LONG, r"row 2: race has 140,000 characters, of which at most 131,072 are read. Shorten it"),
        ("Curaçao".encode("latin-1"), r"row 2: race holds bytes that are not UTF-8. Save it as a csv in UTF"),
        (b"a\0b", r"row 2: race holds a NUL, as text in UTF-16 does. Save it as a csv in UTF-8"),
    ],
)
def test_a_used_cell_is_held_to_its_bounds(csv, used, message):
    path = csv(b"file,race", b"a.jpg," + used)
    with pytest.raises(InputError, match=f"a.csv, {message}"):
        read_csv(path, ["file", "race"], "")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_named_as_such(csv, encoding):
    path = csv("file,race\na,b\n".encode(encoding))
    with pytest.raises(InputError, match=r"a.csv, row 1: .*(NUL|not UTF-8).* Save it as a csv in UTF-8"):
        read_csv(path, ["file", "race"], "")


def test_a_column_in_another_encoding_is_not_said_to_be_missing(csv):
    path = csv("file,Ethnizität".encode("latin-1"), b"a.jpg,A")
    with pytest.raises(InputError, match=r"row 1: .*not UTF-8. Save it as a csv in UTF-8"):
        read_csv(path, ["file", "Ethnizität"], "")


def test_a_long_cell_is_not_printed():
    assert brief("a" * LONG) == "a" * 200 + "…"
