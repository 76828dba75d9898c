"""A store that was moved, and runs whose process died."""

import os
import shutil
import subprocess
import sys

import pytest

from src.tracking import Tracker, repair


def tracker(folder):
    return Tracker(f"sqlite:///{folder}/mlruns/mlflow.db")


@pytest.fixture
def written(tmp_path):
    """A store with one artifact in an experiment of an awkward name."""
    made = tracker(tmp_path / "old")
    run = made.open("data set/ü", "a job")
    run.text("said", "words.txt")
    made.close(run)
    return tmp_path / "old", run.id


@pytest.mark.parametrize("copied", [False, True])
def test_a_moved_store_reads_its_artifacts_where_they_are_now(written, tmp_path, copied, caplog):
    old, run = written
    if copied:
        shutil.copytree(old, tmp_path / "new")
        client = tracker(tmp_path / "new").client
        shutil.rmtree(old)
    else:
        old.rename(tmp_path / "new")
        client = tracker(tmp_path / "new").client
    assert "was moved: the places of 2 experiments and runs are rewritten" in caplog.text
    path = client.download_artifacts(run, "words.txt")
    with open(path) as file:  # noqa: PTH123
        assert file.read() == "said"
    caplog.clear()
    tracker(tmp_path / "new")
    assert "was moved" not in caplog.text


def test_a_moved_store_takes_new_runs_beside_the_old(written, tmp_path):
    old, first = written
    old.rename(tmp_path / "new")
    made = tracker(tmp_path / "new")
    second = made.open("data set/ü", "another")
    second.text("more", "words.txt")
    places = {made.client.get_run(run).info.artifact_uri.rsplit("/", 2)[0] for run in (first, second.id)}
    assert len(places) == 1
    assert not old.exists()


def test_artifacts_that_were_never_beside_the_database_stay_where_they_are(tmp_path):
    made = tracker(tmp_path / "store")
    elsewhere = (tmp_path / "disk").as_uri()
    made.client.create_experiment("mine", artifact_location=elsewhere)
    tracker(tmp_path / "store")
    assert made.client.get_experiment_by_name("mine").artifact_location == elsewhere


def tagged(made, **tags):
    run = made.open("runs", "a job")
    for name, value in tags.items():
        made.client.set_tag(run.id, f"process.{name}", value)
    return run.id


def test_runs_of_a_dead_process_are_ended_and_marked(tmp_path):
    made = tracker(tmp_path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    runs = {
        "mine": tagged(made),
        "dead": tagged(made, pid=str(dead.pid)),
        "reused": tagged(made, pid=str(os.getpid()), started="1.0", born="another 1"),
        "elsewhere": tagged(made, host="another", pid=str(dead.pid)),
        "unnamed": tagged(made, pid="none"),
    }
    client = tracker(tmp_path).client
    status = {name: client.get_run(run).info.status for name, run in runs.items()}
    assert status == {
        "mine": "RUNNING", "dead": "KILLED", "reused": "KILLED", "elsewhere": "RUNNING", "unnamed": "RUNNING",
    }  # fmt: skip
    assert "ended" in client.get_run(runs["dead"]).data.tags
    assert "ended" not in client.get_run(runs["mine"]).data.tags


def test_a_process_is_known_by_its_start_too():
    known = repair.process()
    assert not repair.gone(known)
    untold = {name: said for name, said in known.items() if name != repair.BORN}
    assert not repair.gone(untold)
    assert repair.gone({**untold, repair.STARTED: "1.0"})
    assert repair.gone({**known, repair.BORN: "another 1"})
    assert not repair.gone({**known, repair.MACHINE: "another", repair.BORN: "another 1"})
    assert not repair.gone({})
