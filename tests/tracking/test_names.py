"""A user's words have names of their own in MLflow, and are got back from them."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from src.configs import check
from src.errors import InputError
from src.storage import results
from src.sweeps import job_status
from src.sweeps.sweep import Sweep
from src.tracking import Run, Tracker, children, finished, names, sweeps
from tests.commands import command
from tests.conftest import places, precomputed, prompted

AWKWARD = (
    *("mood (day)", "a/b", "a\\b", "50%", "#1", "<b>", "x|y", "two\nlines", "a\tb", "😀", "心情", "é"),
    *("e\u0301", " lead", "trail ", ".", "..", "...", "a.b", "a..b", "../c", "Mood", "mood", "1", "yes"),
    *("null", "2024-01-01", "NaN", "nan", "a_x28_", "_x_", "_x41", "{{ x }}", "${seed}", "a=b", "a,b"),
    *("'", '"', "`", "~", "a:b", "C:\\nul", "\u200b", "مرحبا", "mlflow.user", "é(" * 200),
    *("x" * 300, "x" * 299 + "y"),
)  # fmt: skip
IN_YAML = (
    *("mood (day)", "a/b", "50% #1", "<b>|`", "two\nlines", "😀", "心情", " blanks ", "../c", "a.b", "Mood"),
    *("mood", "1", "yes", "null", "2024-01-01", "NaN", "${seed}", "x" * 300),
)  # fmt: skip
# Of any text, with many of the characters that escapes are made of.
TEXTS = st.text(
    st.one_of(st.sampled_from("_x0A4F281(.:/ é\n"), st.characters(exclude_categories=())), max_size=14
)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return Tracker(f"sqlite:///{tmp_path_factory.mktemp('names')}/mlflow.db")


@given(TEXTS)
def test_every_text_is_got_back_from_its_name(text):
    assert names.decoded(names.encoded(text)) == text
    assert names.decoded(names.title(text)) == text


@pytest.mark.parametrize(
    "name", ["rho", "rho.Luupite Women", "effect_size.all", "cles_gap.emotions_positive", "rho.A-b: c.d_2"]
)
def test_names_of_ordinary_words_are_the_words(name):
    assert names.shortened(names.encoded(name)) == name


def test_names_that_are_too_long_stay_apart():
    longer = ["x" * 240, "x" * 300, "x" * 299 + "y", "x" * 222 + "_x0123456789ABCDEF_"]
    short = [names.shortened(names.encoded(name)) for name in longer]
    assert len({*short}) == len(longer)
    assert max(map(len, short)) == names.LIMIT


def test_keys_that_differ_only_by_where_their_dots_are_stay_apart():
    flat = names.paths({"sets": {"a.b": 1, "a": {"b": 2}, "": 3, "a_x2E_b": 4}})
    assert sorted(flat.values()) == [1, 2, 3, 4]
    parts = {tuple(map(names.decoded, name.split("."))): value for name, value in flat.items()}
    assert parts == {("sets", "a.b"): 1, ("sets", "a", "b"): 2, ("sets", ""): 3, ("sets", "a_x2E_b"): 4}


def test_a_store_takes_every_word_and_gives_it_back(tracker, tmp_path):
    run = tracker.open("words", "a job")
    numbers = {f"rho.{word}": float(number) for number, word in enumerate(AWKWARD)}
    run.log(metrics=numbers, params={"exp": {"sets": dict.fromkeys(AWKWARD, "a\0b\ud800")}})
    run.log(tags={word: word for word in AWKWARD} | {"": "empty"})
    run.log(metrics=dict.fromkeys(AWKWARD, 0.5), params={"": {"": 1}})
    tracker.close(run)
    data = tracker.client.get_run(run.id).data
    whole = json.loads(run.fetch("names.json", tmp_path).read_text("utf-8"))
    back = {names.decoded(whole.get(name, name)): value for name, value in data.metrics.items()}
    assert back == numbers | dict.fromkeys(AWKWARD, 0.5)
    keys = [whole.get(name, name).split(".") for name in data.params]
    assert {tuple(map(names.decoded, parts)) for parts in keys} == {
        ("", ""), *(("exp", "sets", word) for word in AWKWARD)
    }  # fmt: skip
    tags = {names.decoded(whole.get(name, name)): value for name, value in data.tags.items()}
    assert {word: tags[word] for word in AWKWARD} == {word: word for word in AWKWARD}


@pytest.mark.parametrize("word", ["mood (day)", "../c", "two\nlines", "😀", " ", "a_x28_", "x" * 600, "a\0b"])
def test_an_experiment_and_a_run_may_be_called_anything(tracker, word):
    parent = tracker.open(word, "sweep")
    parent.log(tags={"kind": "sweep"})
    run = tracker.open(word, word, parent)
    run.log(tags={"kind": "job", "key": "0"})
    run.text("text", "words.txt")
    run.inputs({word: "0" * 64, word + "b": "1" * 64})
    assert tracker.end(parent, [word], "lost") == {word: (run.id, "KILLED")}
    run.end("FINISHED")
    assert [found.id for found in tracker.finished(word, "0")] == [run.id]
    assert [found.id for found in finished(tracker, word)] == [run.id]
    (past,) = [sweep for sweep in sweeps(tracker, word) if sweep.id == parent.id]
    assert past.dataset == (word if len(word) < 480 else names.title(word, 480))
    assert [child.id for child in children(tracker, past)] == [run.id]
    assert len(tracker.client.get_run(run.id).inputs.dataset_inputs) == 2


def test_an_audit_whose_sets_have_awkward_names_is_recorded_and_reported(tmp_path):
    """From a YAML of the user's to MLflow, to parquet, csv, figures and the page."""
    words = ("surprise", "attraction", "pleasure", "anger", "disgust", "fear")
    sets = {word: [words[number % 5], words[number % 5 + 1]] for number, word in enumerate(IN_YAML)}
    audit = {"paper": "CLES", "attribute": "all (mean)", "template": "A photo of a {} looking face"}
    audit |= {"defaults": ["/schema/audit@_here_", "_self_"], "sets": sets}
    (tmp_path / "conf" / "exp").mkdir(parents=True)
    text = yaml.safe_dump(audit, allow_unicode=True)
    (tmp_path / "conf" / "exp" / "awkward.yaml").write_text(text, "utf-8")
    lab = prompted(precomputed(tmp_path / "lab"))
    arguments = ["-m", "exp=awkward", "model=precomputed", f"model.path={lab}", *places(tmp_path)]
    arguments += [f"hydra.searchpath=[file://{tmp_path}/conf]", "report=true", "protocol.faces_per_group=9"]
    assert command(tmp_path / "out", *arguments).code == 0
    table = results.read_csv(tmp_path / "out" / "0" / "results" / "analyses.csv")
    assert {*table["attribute"]} == {*IN_YAML, "all (mean)"}
    tracker = Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (job,) = finished(tracker, "precomputed")
    whole = json.loads(Run(job.id, tracker).fetch("names.json", tmp_path).read_text("utf-8"))
    measured = {names.decoded(whole.get(name, name)) for name in job.metrics}
    assert measured >= {f"cles_gap.{word}" for word in table["attribute"]}
    assert "mood (day)" in (tmp_path / "out" / "report" / "index.html").read_text("utf-8")


def test_reports_of_awkward_data_sets_stay_in_the_folder_of_the_sweep(tmp_path, monkeypatch):
    folders = []
    monkeypatch.setattr(job_status, "report", lambda part, parent, folder: folders.append(folder) or folder)
    part = job_status.Part(None, object(), report=True, folders={"config": tmp_path})
    assert Sweep(None, "", tmp_path, parts=dict.fromkeys(("../x", "A/b", "demo"), part))._report()
    assert {folder.parent for folder in folders} == {tmp_path / "report"}
    assert [folder.name for folder in folders] == ["x", "a-b", "demo"]


def test_an_empty_name_is_refused_before_work():
    with pytest.raises(InputError, match=r"exp\.sets: expected a name before the colon, got an empty one"):
        check({"": ["warm"]}, "exp.sets")
