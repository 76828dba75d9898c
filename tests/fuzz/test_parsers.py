"""Send every parser a dozen bad files, always the same ones; `python -m tests.fuzz` is the full form.

A path that is no regular file (missing, a folder, a pipe, a device) neither crashes a parser nor blocks it.
"""

import csv
import io
import os
import socket
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from src.stimuli.csvs import read_rows
from tests.fuzz import people
from tests.fuzz.harness import REFUSED, TABLE, answered, tried
from tests.fuzz.parsers import PARSERS

# Datasets of people are read by the same code as other listings: their parsers belong to the thorough suite.
COMMON = [parser for parser in PARSERS if parser not in people.PARSERS]
EACH = [*COMMON, *(pytest.param(parser, marks=pytest.mark.thorough) for parser in people.PARSERS)]
QUICK = settings(
    max_examples=12, derandomize=True, deadline=None, database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example,
    ],
)  # fmt: skip


@pytest.mark.parametrize("parser", EACH, ids=lambda parser: parser.name)
def test_a_bad_file_is_a_table_or_a_refusal_that_helps(tmp_path, parser):
    parser.draw(tmp_path)
    valid = (tmp_path / parser.file).read_bytes()
    assert tried(parser, tmp_path, valid, patient=True) == TABLE

    @QUICK
    @given(random=st.randoms(use_true_random=False))
    def bad(random):
        tried(parser, tmp_path, parser.change(valid, random, parser.separators))

    bad()


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=8)


@settings(QUICK, max_examples=60)
@given(rows=st.lists(st.lists(TEXT, min_size=2, max_size=4), max_size=5), end=st.sampled_from(["\n", "\r\n"]))
def test_csv_is_read_as_it_was_written(tmp_path, rows, end):
    output = io.StringIO()
    csv.writer(output, lineterminator=end).writerows(rows)
    (tmp_path / "a.csv").write_bytes(output.getvalue().encode())
    rows_read = [row for _, row in read_rows(tmp_path / "a.csv", "")]
    assert rows_read == [[cell.strip() for cell in row] for row in rows]


# Opened by test code, which hands their content to src: a pipe would block only that.
OPENED_BY_TESTS = ("names", "answer.txt", "reply.json", "embedding.json")


def folder(path):
    path.mkdir()
    (path / "in it").touch()


def listening(path):
    before = Path.cwd()
    os.chdir(path.parent)  # the name of a socket holds 108 bytes
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(before)


FORMS = {
    "missing": lambda path: None,
    "folder": folder,
    "pipe": os.mkfifo,
    "listening": listening,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "itself": lambda path: path.symlink_to(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "empty": Path.touch,
}


@pytest.mark.parametrize(
    "parsers",
    [
        pytest.param(COMMON, id="common"),
        pytest.param(people.PARSERS, marks=pytest.mark.thorough, id="people"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_a_path_that_is_no_regular_file_is_refused(tmp_path, form, parsers):
    """Check that no parser crashes or waits; waiting would exceed the time limit of the suite."""
    for parser in parsers:
        if parser.file in OPENED_BY_TESTS:
            continue
        place = tmp_path / parser.name.replace("/", "_")
        place.mkdir()
        parser.draw(place)
        (place / parser.file).unlink()
        FORMS[form](place / parser.file)
        assert answered(parser, place, patient=True) in (TABLE, REFUSED), parser.name


@pytest.mark.parametrize("parser", EACH, ids=lambda parser: parser.name)
def test_a_folder_may_be_called_anything(tmp_path, parser):
    place = tmp_path / "é ' \"\n{word} ${x} %s [a]"
    place.mkdir()
    parser.draw(place)
    assert answered(parser, place, patient=True) == TABLE
