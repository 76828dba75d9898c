"""Check that users' words and facts of runs are stored under MLflow's names, and read back."""

import getpass
import json
from unittest import mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from src.storage import results
from src.tracking import (
    LIMIT_TAG,
    Run,
    Tracker,
    find_children,
    find_finished_jobs,
    find_sweeps,
    names,
    repair,
    run_tags,
)
from src.tracking.runs import LIMIT_EXPERIMENT
from tests.commands import command
from tests.conftest import precomputed, prompted, store_overrides

# Awkward words that can be keys of a user's YAML.
IN_YAML = (
    *("mood (day)", "a/b", "50% #1", "<b>|`", "two\nlines", "😀", "心情", " blanks ", "../c", "a.b", "Mood"),
    *("mood", "1", "yes", "null", "2024-01-01", "NaN", "${seed}", "x" * 300),
)  # fmt: skip
# All awkward words: those of `IN_YAML`, and others that are tested through code alone.
AWKWARD = (
    *(*IN_YAML, "a\\b", "é", "e\u0301", ".", "...", "nan", "a_x28_", "_x_", "_x41", "a=b,c", "'\"~"),
    *("C:\\nul", "\u200b", "mlflow.user", "é(" * 200, "x" * 299 + "y"),
)  # fmt: skip
# Any text, with many of the characters that escapes are made of.
TEXTS = st.text(
    st.one_of(st.sampled_from("_x0A4F281(.:/ é\n"), st.characters(exclude_categories=())), max_size=14
)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return Tracker(f"sqlite:///{tmp_path_factory.mktemp('names')}/mlflow.db")


@given(TEXTS)
def test_every_text_is_decoded_from_its_name(text):
    assert names.decode(names.encode(text)) == text
    assert names.decode(names.encode_title(text)) == text


def test_names_that_are_too_long_stay_apart():
    longer = ["x" * 240, "x" * 300, "x" * 299 + "y", "x" * 222 + "_x0123456789ABCDEF_"]
    short = [names.shorten(names.encode(name)) for name in longer]
    assert len({*short}) == len(longer)
    assert max(map(len, short)) == names.LIMIT_NAME


def test_a_store_takes_every_word_and_gives_it_back(tracker, tmp_path):
    run = tracker.start_run("words", "a job")
    numbers = {f"rho.{word}": float(number) for number, word in enumerate(AWKWARD)}
    run.log(metrics=numbers, params={"exp": {"sets": dict.fromkeys(AWKWARD, "a\0b\ud800")}})
    run.log(tags={word: word for word in AWKWARD} | {"": "empty"})
    run.log(params={"": {"": 1}})
    run.end()
    data = tracker.client.get_run(run.id).data
    full_names = json.loads(run.fetch("names.json", tmp_path).read_text("utf-8"))
    metrics, tags = (
        {names.decode(names.restore_dot(full_names.get(name, name))): value for name, value in values.items()}
        for values in (data.metrics, data.tags)
    )
    assert metrics == numbers
    keys = {tuple(map(names.decode, full_names.get(name, name).split("."))) for name in data.params}
    assert keys == {("", ""), *(("exp", "sets", word) for word in AWKWARD)}
    assert {word: tags[word] for word in AWKWARD} == {word: word for word in AWKWARD}


@pytest.mark.parametrize("word", ["../c (day)", "two\nlines 😀", " ", "x" * 600, "a\0b"])
def test_an_experiment_and_a_run_may_be_called_anything(tracker, word):
    parent = tracker.start_run(word, "sweep")
    parent.log(tags={"kind": "sweep"})
    run = tracker.start_run(word, word, parent)
    run.log(tags={"kind": "job", "key": "0"})
    run.log_text("text", "words.txt")
    run.log_inputs({word: "0" * 64, word + "b": "1" * 64})
    assert tracker.end_children(parent, [word], "lost") == {word: (run.id, "KILLED")}
    run.end("FINISHED")
    assert [item.id for item in tracker.find_finished(word, "0")] == [run.id]
    assert [item.id for item in find_finished_jobs(tracker, word)] == [run.id]
    (listed,) = [sweep for sweep in find_sweeps(tracker, word) if sweep.id == parent.id]
    assert listed.dataset == (
        word if len(word) < LIMIT_EXPERIMENT else names.encode_title(word, LIMIT_EXPERIMENT)
    )
    assert [child.id for child in find_children(tracker, listed)] == [run.id]
    assert len(tracker.client.get_run(run.id).inputs.dataset_inputs) == 2


@pytest.mark.thorough
def test_an_audit_whose_sets_have_awkward_names_is_recorded_and_reported(tmp_path):
    """Run a user's YAML through MLflow, parquet, csv, figures and the page."""
    words = ("surprise", "attraction", "pleasure", "anger", "disgust", "fear")
    sets = {word: [words[number % 5], words[number % 5 + 1]] for number, word in enumerate(IN_YAML)}
    audit = {"paper": "CLES", "attribute": "all (mean)", "template": "A photo of a {} looking face"}
    audit |= {"defaults": ["/schema/audit@_here_", "_self_"], "sets": sets}
    (tmp_path / "conf" / "exp").mkdir(parents=True)
    text = yaml.safe_dump(audit, allow_unicode=True)
    (tmp_path / "conf" / "exp" / "awkward.yaml").write_text(text, "utf-8")
    vectors_folder = prompted(precomputed(tmp_path / "vectors"))
    arguments = ["-m", "exp=awkward", "model=precomputed", f"model.path={vectors_folder}"]
    arguments += [*store_overrides(tmp_path), f"hydra.searchpath=[file://{tmp_path}/conf]", "report=true"]
    assert command(tmp_path / "out", *arguments, "protocol.faces_per_group=9").code == 0
    table = results.read_csv(tmp_path / "out" / "0" / "results" / "analyses.csv")
    assert {*table["attribute"]} == {*IN_YAML, "all (mean)"}
    tracker = Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (job,) = find_finished_jobs(tracker, "precomputed")
    full_names = json.loads(Run(job.id, tracker).fetch("names.json", tmp_path).read_text("utf-8"))
    full_names = {names.restore_dot(short): names.restore_dot(name) for short, name in full_names.items()}
    measured = {names.decode(full_names.get(name, name)) for name in job.metrics}
    assert measured >= {f"cles_gap.{word}" for word in table["attribute"]}
    assert "mood (day)" in (tmp_path / "out" / "report" / "index.html").read_text("utf-8")


FACTS = {
    **{"process.host": "h", "process.pid": "1", "version.torch": "2.9", "version.numpy": "2.4"},
    **{"input.faces": "a" * 64, "input.faces.vectors": "b" * 64, "used.faces": "faces: 3 used of 3"},
    **{"command": "python -m src.run exp=a/b", "git.commit": "c" * 40, "git.dirty": "false"},
    **{"description": "**x**", "exp": "faces_to_words", "weights.sha256": "d" * 64},
}


def test_facts_are_stored_under_the_names_that_mlflow_displays_and_unknown_ones_make_no_tag(monkeypatch):
    tags = run_tags.to_tags(FACTS)
    assert tags["mlflow.source.name"] == "python -m src.run exp=a/b"
    assert tags["mlflow.source.type"] == "JOB"
    assert tags["mlflow.source.git.commit"] == "c" * 40
    assert tags["mlflow.note.content"] == "**x**"
    visible = {name for name in tags if not name.startswith("mlflow.")}
    assert visible == {"environment.process", "environment.versions", "inputs", "exp", "weights.sha256"}
    assert json.loads(tags["inputs"])["used.faces"] == "faces: 3 used of 3"
    assert run_tags.to_facts(FACTS) == FACTS  # as in a run of an older version
    assert run_tags.to_tags({"git.commit": "unknown", "git.dirty": "unknown"}) == {}
    # A user without a name.
    unnamed = mock.Mock(side_effect=KeyError("getpwuid(): uid not found: 4711"))
    monkeypatch.setattr(getpass, "getuser", unnamed)
    assert run_tags.build_user_tags() == {}


@given(st.dictionaries(st.sampled_from([*FACTS]), st.text(st.characters(codec="utf-8"), max_size=9)))
def test_facts_are_read_back(facts):
    expected = {name: text for name, text in facts.items() if not (name[:4] == "git." and text == "unknown")}
    known = run_tags.to_facts(run_tags.to_tags(facts))
    assert known == expected | ({"mlflow.source.type": "JOB"} if "command" in facts else {})


@pytest.mark.parametrize("text", ["edited", "[1]", "null", "{"])
def test_a_group_that_a_user_edited_is_ignored(text):
    assert run_tags.to_facts({"inputs": text, "exp": "x"}) == {"exp": "x"}


def test_a_group_that_is_too_long_for_a_tag_is_stored_as_several():
    facts = {f"used.{number}": "x" * 400 for number in range(LIMIT_TAG // 400 + 1)}
    tags = run_tags.to_tags({**facts, "input.faces": "a"})
    assert "inputs" not in tags
    assert max(map(len, tags.values())) <= LIMIT_TAG
    assert run_tags.to_facts(tags) == {**facts, "input.faces": "a"}


def test_tags_that_are_logged_in_steps_stay_together(tmp_path):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    run = tracker.start_run("demo", "a job")
    run.log(tags={"kind": "job", "input.faces": "a"})
    run.log(tags={"input.words": "b", "used.words": "x" * 4990})
    run.log(tags={"input.faces.vectors": "c" * 200})  # too long for a tag from here on
    run.end()
    (stored,) = find_finished_jobs(tracker, "demo")
    assert [stored.tags[name] for name in ("input.faces", "input.words", "input.faces.vectors")] == [
        "a", "b", "c" * 200,
    ]  # fmt: skip
    assert Run(run.id, tracker).read_tag("input.words") == "b"
    assert stored.tags["process.pid"] == repair.build_process_tags()["process.pid"]


def test_an_experiment_of_another_program_opens_among_runs(tmp_path):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    tracker.client.create_experiment("theirs")
    for name in ("ours", "theirs"):
        tracker.start_run(name, "a job")
        tags = tracker.client.get_experiment_by_name(name).tags
        assert tags["mlflow.experimentKind"] == "custom_model_development"
