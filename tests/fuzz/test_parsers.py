"""Feed every parser a dozen bad files, always the same ones; `python -m tests.fuzz` is the full form."""

import csv
import io

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from src.errors import InputError
from src.stimuli.csvs import records
from src.studies.subtler.parsing import match
from tests.fuzz.harness import TABLE, tried
from tests.fuzz.parsers import PARSERS

QUICK = settings(
    max_examples=12, derandomize=True, deadline=None, database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example,
    ],
)  # fmt: skip


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
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
def test_whatever_is_written_as_csv_is_read_as_it_was(tmp_path, rows, end):
    made = io.StringIO()
    csv.writer(made, lineterminator=end).writerows(rows)
    (tmp_path / "a.csv").write_bytes(made.getvalue().encode())
    found = [row for _, row in records(tmp_path / "a.csv", "")]
    assert found == [[cell.strip() for cell in row] for row in rows]


@settings(QUICK, max_examples=60)
@given(content=st.binary(max_size=60))
def test_bytes_are_rows_or_refused(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    try:
        found = list(records(tmp_path / "a.csv", ""))
    except InputError as error:
        assert str(tmp_path / "a.csv") in str(error)  # noqa: PT017 - it may be a table, too
    else:
        assert all(isinstance(cell, str) for _, row in found for cell in row)


@settings(QUICK, max_examples=60)
@given(said=st.text(max_size=30), options=st.lists(st.text(max_size=10), min_size=3, max_size=3, unique=True))
def test_an_answer_is_an_option_or_none(said, options):
    assert match(said, options) in (None, 0, 1, 2)
    for option in options:
        assert match(option, options) in (None, options.index(option))
