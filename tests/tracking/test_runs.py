"""Check what runs log and how they end, several writers at once, and the repair of stores that were moved."""

import math
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from src.tracking import Tracker, repair

WRITERS = 6


def tracker_of(folder):
    return Tracker(f"sqlite:///{folder}/mlruns/mlflow.db")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tracking")


@pytest.fixture(scope="module")
def tracker(folder):
    return tracker_of(folder)


@contextmanager
def recorded(tracker, experiment, parent=None):
    run = tracker.start_run(experiment, "a job", parent)
    with tracker.end_on_exit(run):
        yield run


def test_awkward_groups_are_logged_and_undefined_numbers_listed(tracker):
    metrics = {"rho.<script>": 0.5, "rho.(script)": 0.25, "rho.none": math.nan, "rho.inf": math.inf}
    with recorded(tracker, "data/<set>") as run:
        run.log(metrics=metrics, params={"long": "x" * 9000}, tags={"t": "y" * 9000})
    logged = tracker.client.get_run(run.id)
    assert logged.info.status == "FINISHED"
    assert sorted(logged.data.metrics.values()) == [0.25, 0.5]
    assert logged.data.tags["undefined_metrics"] == "rho.inf, rho.none"


@pytest.mark.parametrize(("error", "status"), [(ZeroDivisionError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_a_run_that_breaks_is_ended_with_its_traceback(tracker, folder, error, status):
    with pytest.raises(error), recorded(tracker, "broken") as run:
        raise error
    assert tracker.client.get_run(run.id).info.status == status
    traceback = folder / "mlruns/artifacts/broken" / run.id / "artifacts/traceback.txt"
    assert traceback.is_file() == (status == "FAILED")


def test_the_environment_names_neither_store_nor_run(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    tracker = tracker_of(folder)
    assert "MLFLOW_RUN_ID" not in os.environ
    parent = tracker.start_run("nested", "sweep")
    with recorded(tracker, "nested", parent) as child:
        child.log_text("text", "words.txt")
    assert child.fetch("words.txt", tmp_path).read_text() == "text"
    assert tracker.client.get_run(child.id).data.tags["mlflow.parentRunId"] == parent.id


@pytest.fixture
def written(tmp_path):
    """Create a store with an artifact in an experiment of an awkward name."""
    tracker = tracker_of(tmp_path / "old")
    run = tracker.start_run("data set/ü", "a job")
    run.log_text("text", "words.txt")
    run.end()
    return tmp_path / "old", run.id


@pytest.mark.parametrize("copied", [False, True])
def test_a_moved_store_reads_its_artifacts_where_they_are_now(written, tmp_path, copied, caplog):
    old, run = written
    (shutil.copytree if copied else shutil.move)(old, tmp_path / "new")
    client = tracker_of(tmp_path / "new").client
    shutil.rmtree(old, ignore_errors=True)
    assert "was moved: updated the paths of 2 experiments and runs" in caplog.text
    assert Path(client.download_artifacts(run, "words.txt")).read_text() == "text"
    caplog.clear()
    tracker_of(tmp_path / "new")
    assert "was moved" not in caplog.text


def test_artifacts_that_were_never_next_to_the_database_stay_there(tmp_path):
    tracker = tracker_of(tmp_path / "store")
    elsewhere = (tmp_path / "disk").as_uri()
    tracker.client.create_experiment("mine", artifact_location=elsewhere)
    tracker_of(tmp_path / "store")
    assert tracker.client.get_experiment_by_name("mine").artifact_location == elsewhere


def tagged(tracker, **tags):
    run = tracker.start_run("runs", "a job")
    for name, value in tags.items():
        tracker.client.set_tag(run.id, f"process.{name}", value)
    return run.id


def test_runs_of_a_dead_process_are_ended_and_marked(tmp_path):
    tracker = tracker_of(tmp_path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    runs = {
        "mine": tagged(tracker),
        "dead": tagged(tracker, pid=str(dead.pid)),
        "reused": tagged(tracker, pid=str(os.getpid()), started="1.0", born="another 1"),
        "elsewhere": tagged(tracker, host="another", pid=str(dead.pid)),
        "unnamed": tagged(tracker, pid="none"),
    }
    client = tracker_of(tmp_path).client
    status = {name: client.get_run(run).info.status for name, run in runs.items()}
    assert status == {
        "mine": "RUNNING", "dead": "KILLED", "reused": "KILLED", "elsewhere": "RUNNING", "unnamed": "RUNNING",
    }  # fmt: skip
    assert "ended" in client.get_run(runs["dead"]).data.tags
    assert "ended" not in client.get_run(runs["mine"]).data.tags


def test_a_run_that_ends_during_the_repair_stays_finished(tmp_path, monkeypatch):
    """End the run while the repair queries whether its process is alive."""
    tracker = tracker_of(tmp_path)
    run = tracker.start_run("precomputed", "a job")

    def end(_):
        run.end()
        return True

    monkeypatch.setattr(repair, "has_ended", end)
    tracker_of(tmp_path)
    assert tracker.client.get_run(run.id).info.status == "FINISHED"


@pytest.mark.parametrize(
    "store",
    ["database", pytest.param("server", marks=[pytest.mark.thorough, pytest.mark.xdist_group("server")])],
)
def test_runs_log_the_same_datasets_at_once(tmp_path, store, request):
    """Log the same datasets at once: MLflow writes a dataset that another run may have written meanwhile."""
    uri = f"sqlite:///{tmp_path}/mlflow.db" if store == "database" else request.getfixturevalue("server")
    Tracker(uri)
    barrier = Barrier(WRITERS, timeout=100)

    def write(number):
        tracker = Tracker(uri)
        for step in range(5):
            run = tracker.start_run("writers", f"{number} {step}")
            barrier.wait()
            run.log_inputs({f"demo faces {step}": "a" * 64, f"demo words {step}": "b" * 64})

    with ThreadPoolExecutor(WRITERS) as pool:
        assert [*pool.map(write, range(WRITERS))] == [None] * WRITERS
    tracker = Tracker(uri)
    runs = tracker.client.search_runs([tracker.get_or_create_experiment("writers")])
    assert len(runs) == WRITERS * 5
    for run in runs:
        step = run.info.run_name.split()[1]
        names = sorted(item.dataset.name for item in run.inputs.dataset_inputs)
        assert names == [f"demo faces {step}", f"demo words {step}"]
