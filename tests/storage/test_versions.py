"""Declared versions: each part gives what is recorded for it; a raised version is in the changelog."""

import inspect
import json
import re

import pytest

from src import metrics
from src.storage import versions
from tests.paths import CHECKOUT
from tests.recorded import comparison
from tests.recorded.parts import RECORDERS


@pytest.mark.parametrize("part", RECORDERS)
def test_a_part_gives_what_is_recorded_for_its_version(part, tmp_path):
    recorded = comparison.read(part)
    assert recorded["version"] == versions.every()[part], (
        f"{part} has another version than its recorded output. Record it: python -m tests.recorded"
    )
    computed = comparison.plain(RECORDERS[part].make(tmp_path))
    changed = comparison.differences(part, RECORDERS[part], recorded["output"], computed)
    assert not changed, "\n".join([*changed, f"Raise {part}.version in src/versions.yaml, or mend the code."])


def test_every_part_is_recorded_and_nothing_else():
    files = {path.stem for path in comparison.OUTPUTS.glob("*.json")}
    assert files == {*RECORDERS} == {*versions.every()}


def test_every_metric_is_recorded():
    recorded = {*comparison.read("metrics")["output"]}
    public = {name for name, value in vars(metrics).items() if inspect.isfunction(value)}
    # These are recorded through what is computed of them.
    within = {"factors", "iat_scores", "iat_totals", "nearer"}
    assert public - within <= recorded


def test_a_raised_version_is_in_the_changelog():
    assert missing_lines(versions.every(), (CHECKOUT / "CHANGELOG.md").read_text("utf-8")) == []


def missing_lines(numbers, changelog):
    return [
        f"{part} version {number}"
        for part, number in numbers.items()
        if number > 1 and not re.search(rf"`{re.escape(part)}` version {number}\b", changelog)
    ]


def test_a_raised_version_without_a_line_is_noticed():
    numbers = {"metrics": 2, "encoders.toy": 1, "report": 3}
    assert missing_lines(numbers, "- `metrics` version 2: ddof. `report` version 31") == ["report version 3"]


def test_every_part_says_what_its_last_change_was():
    assert all(entry["change"] for entry in _entries(versions.read()))


def _entries(node):
    for entry in node.values():
        yield from [entry] if "version" in entry else _entries(entry)


@pytest.mark.parametrize(
    ("recorded", "computed", "differs"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-12], False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-11], True),
        ([1.0], [1.0, 2.0], True),
        (["a", None], ["a", None], False),
        (["a", None], ["b", None], True),
        ({"x": {"y": 1}}, {"x": {"z": 1}}, True),
        (True, 1, True),
    ],
)
def test_numbers_are_compared_to_a_trillionth_and_texts_exactly(recorded, computed, differs):
    assert bool(comparison.float64(recorded, computed)) is differs


def test_json_keeps_every_digit():
    assert json.loads(json.dumps(comparison.plain({"x": 0.1 + 0.2}))) == {"x": 0.1 + 0.2}
