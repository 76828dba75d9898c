"""Several sweeps in one report: all of each, once."""

from dataclasses import replace

import pandas as pd
import pytest
from scipy import stats

from src.report import page
from src.report.several import joined
from tests.report import made
from tests.report.test_page import SMALL, Read
from tests.studies.subtler import choices


def test_recorded_answers_of_two_languages_stand_side_by_side(tmp_path):
    english, chinese = choices.scored("llama2_en", "subtler_en"), choices.scored("qwen_zh", "subtler_zh")
    about = {"git.commit": "f" * 40, "git.dirty": "false"}
    first = choices.swept(english, sweep="a" * 32, provenance={**about, "command": "one", "input.x": "1"})
    second = choices.swept(
        chinese, sweep="b" * 32, started="2026-02-01T10:00:00+00:00", missing=["task=subtler_zh"],
        provenance={**about, "git.dirty": "true", "command": "two", "input.x": "2", "input.y": "3"},
    )  # fmt: skip
    found = joined([first, second])
    pd.testing.assert_frame_equal(found.of("subtler"), pd.concat([english, chinese], ignore_index=True))
    assert found.missing == ["task=subtler_zh"]
    assert (found.sweep, found.started) == (f"{'a' * 32}, {'b' * 32}", "2026-02-01T10:00:00+00:00")
    assert found.provenance == {
        "git.commit": "f" * 40,
        "git.dirty": "true",
        "command": "one\ntwo",
        "input.x, sweep aaaaaaaa": "1",
        "input.x, sweep bbbbbbbb": "2",
        "input.y, sweep bbbbbbbb": "3",
    }
    assert len(joined([first, replace(first, sweep="c" * 32)]).of("subtler")) == len(english)
    read = Read(page.write(found, tmp_path).read_text(encoding="utf-8"))
    assert "subtler-compared" in {attributes.get("id") for _, attributes in read.tags}


def test_q_is_over_the_analyses_of_both(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = made.made(tmp_path / "one", models=("a",), readings=("paper",), **SMALL)
    second = made.made(tmp_path / "two", models=("b",), readings=("paper",), status="KILLED", **SMALL)
    second.of("propagation")["p_placebo"] /= 40
    second.of("propagation")["config"] += "b"
    found = joined([first, second])
    p = pd.concat([one.of("propagation")["p_placebo"] for one in (first, second)]).dropna()
    q = found.of("propagation")["q"].dropna()
    assert q.tolist() == pytest.approx(stats.false_discovery_control(p).tolist())
    assert found.status == "KILLED"
    assert found.models["model"].tolist() == ["a", "b"]
    assert joined([first]) is first
