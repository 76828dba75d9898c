"""What MLflow takes, and what it does not."""

import math
import os
from contextlib import contextmanager

import pytest

from src.errors import InputError
from src.tracking import Tracker


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tracking")


@pytest.fixture(scope="module")
def tracker(folder):
    return Tracker(f"sqlite:///{folder}/mlruns/mlflow.db")


@contextmanager
def recorded(tracker, experiment, parent=None):
    run = tracker.open(experiment, "a job", parent)
    with tracker.recorded(run):
        yield run


def test_awkward_groups_are_logged_and_undefined_numbers_said(tracker):
    metrics = {"rho.<script>": 0.5, "rho.(script)": 0.25, "rho.é|": 1.0, "rho.a//b": 2.0, "rho.a/": 3.0}
    metrics |= {"rho./../b": 4.0, "rho." + "x" * 400: 5.0, "rho.none": math.nan, "rho.inf": math.inf}
    with recorded(tracker, "data/<set>") as run:
        run.log(metrics=metrics, params={"long": "x" * 9000}, tags={"t": "y" * 9000})
    found = tracker.client.get_run(run.id)
    assert found.info.status == "FINISHED"
    assert sorted(found.data.metrics.values()) == [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert found.data.tags["undefined_metrics"] == "rho.inf, rho.none"


def test_a_run_that_breaks_keeps_its_traceback(tracker):
    with pytest.raises(ZeroDivisionError), recorded(tracker, "broken") as run:
        1 / 0  # noqa: B018
    found = tracker.client.get_run(run.id)
    assert found.info.status == "FAILED"
    path = tracker.client.download_artifacts(run.id, "traceback.txt")
    assert "ZeroDivisionError" in open(path).read()  # noqa: PTH123, SIM115


def test_an_interrupted_run_is_killed(tracker):
    with pytest.raises(KeyboardInterrupt), recorded(tracker, "broken") as run:
        raise KeyboardInterrupt
    assert tracker.client.get_run(run.id).info.status == "KILLED"


def test_artifacts_lie_beside_the_database(tracker, folder):
    with recorded(tracker, "place") as run:
        run.text("said", "words.txt")
    assert (
        folder / "mlruns" / "artifacts" / "place" / run.id / "artifacts" / "words.txt"
    ).read_text() == "said"


def test_a_run_named_by_the_environment_is_not_resumed(folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    tracker = Tracker(f"sqlite:///{folder}/mlruns/mlflow.db")
    assert "MLFLOW_RUN_ID" not in os.environ
    parent = tracker.open("nested", "sweep")
    with recorded(tracker, "nested", parent) as child:
        pass
    assert tracker.client.get_run(child.id).data.tags["mlflow.parentRunId"] == parent.id


@pytest.mark.parametrize("uri", ["", "http://127.0.0.1:9"])
def test_a_store_that_cannot_be_is_refused(uri):
    with pytest.raises(InputError, match=r"tracking\.uri"):
        Tracker(uri)
