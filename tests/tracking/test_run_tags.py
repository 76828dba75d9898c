"""Check that facts are stored as few tags under MLflow's names, and read back, also from older runs."""

import getpass
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.tracking import LIMIT_TAG, Run, Tracker, finished, repair, run_tags

FACTS = {
    **{"process.host": "h", "process.pid": "1", "version.torch": "2.9", "version.numpy": "2.4"},
    **{"input.faces": "a" * 64, "input.faces.vectors": "b" * 64, "used.faces": "faces: 3 used of 3"},
    **{"command": "python -m src.run exp=a/b", "git.commit": "c" * 40, "git.dirty": "false"},
    **{"description": "**x**", "exp": "faces_to_words", "weights.sha256": "d" * 64},
}


def test_facts_are_stored_under_the_names_that_mlflow_displays():
    tags = run_tags.stored(FACTS)
    assert tags["mlflow.source.name"] == "python -m src.run exp=a/b"
    assert tags["mlflow.source.type"] == "JOB"
    assert tags["mlflow.source.git.commit"] == "c" * 40
    assert tags["mlflow.note.content"] == "**x**"
    visible = {name for name in tags if not name.startswith("mlflow.")}
    assert visible == {"environment.process", "environment.versions", "inputs", "exp", "weights.sha256"}
    assert json.loads(tags["inputs"])["used.faces"] == "faces: 3 used of 3"


@given(st.dictionaries(st.sampled_from([*FACTS]), st.text(st.characters(codec="utf-8"), max_size=9)))
def test_facts_are_read_back(facts):
    expected = {name: text for name, text in facts.items() if not (name[:4] == "git." and text == "unknown")}
    known = run_tags.facts(run_tags.stored(facts))
    assert known == expected | ({"mlflow.source.type": "JOB"} if "command" in facts else {})


def test_a_run_of_an_older_version_is_read_unchanged():
    assert run_tags.facts(FACTS) == FACTS


@pytest.mark.parametrize("text", ["edited", "[1]", "null", "{"])
def test_a_group_that_a_user_edited_is_ignored(text):
    assert run_tags.facts({"inputs": text, "exp": "x"}) == {"exp": "x"}


def test_a_group_that_is_too_long_for_a_tag_is_stored_as_several():
    facts = {f"used.{number}": "x" * 400 for number in range(LIMIT_TAG // 400 + 1)}
    tags = run_tags.stored({**facts, "input.faces": "a"})
    assert "inputs" not in tags
    assert max(map(len, tags.values())) <= LIMIT_TAG
    assert run_tags.facts(tags) == {**facts, "input.faces": "a"}


def test_an_unknown_commit_makes_no_tag():
    assert run_tags.stored({"git.commit": "unknown", "git.dirty": "unknown"}) == {}


def test_a_user_without_a_name_makes_no_tag(monkeypatch):
    def fail():
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", fail)
    assert run_tags.user() == {}


def test_tags_that_are_logged_in_steps_stay_together(tmp_path):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    run = tracker.open("demo", "a job")
    run.log(tags={"kind": "job", "input.faces": "a"})
    run.log(tags={"input.words": "b", "used.words": "x" * 4990})
    run.log(tags={"input.faces.vectors": "c" * 200})  # too long for a tag from here on
    run.end()
    (stored,) = finished(tracker, "demo")
    assert [stored.tags[name] for name in ("input.faces", "input.words", "input.faces.vectors")] == [
        "a", "b", "c" * 200,
    ]  # fmt: skip
    assert Run(run.id, tracker).tag("input.words") == "b"
    assert stored.tags["process.pid"] == repair.process()["process.pid"]


def test_an_experiment_of_another_program_opens_among_runs(tmp_path):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    tracker.client.create_experiment("theirs")
    for name in ("ours", "theirs"):
        tracker.open(name, "a job")
        tags = tracker.client.get_experiment_by_name(name).tags
        assert tags["mlflow.experimentKind"] == "custom_model_development"
