"""What is finished is taken over: after Ctrl-C, after a kill, after the checkout was moved."""

import shutil

import pandas as pd
import pytest
from mlflow import MlflowClient
from safetensors.numpy import load_file, save_file

from src.storage import versions
from src.tracking import Tracker
from tests.commands import command, killed
from tests.conftest import SHRUNK, places, precomputed

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]

TWO = "exp=faces_to_words,words_to_scenes"


def found(folder, dataset="precomputed"):
    """Runs of a store, oldest first: parents, then jobs."""
    client = MlflowClient(f"sqlite:///{folder}/mlruns/mlflow.db")
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == dataset]
    every = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    return [[run for run in every if run.data.tags.get("kind") == kind] for kind in ("sweep", "job")]


def summary(folder, parent, name="analyses.csv", dataset="precomputed"):
    return folder / "mlruns/artifacts" / dataset / parent.info.run_id / "artifacts/summary" / name


@pytest.fixture
def swept(tmp_path):
    """Sweeps a folder of vectors."""
    folder = precomputed(tmp_path / "lab")

    def run(name, *overrides, mlruns=tmp_path):
        arguments = ["model=precomputed", f"model.path={folder}", "exp=glob(*_to_*)", *SMALL]
        return command(tmp_path / name, "-m", *arguments, *places(mlruns), *overrides)

    return run


def results(swept):
    paths = sorted(swept.output.glob("*/results/*"))
    return {str(path.relative_to(swept.output)): path.read_bytes() for path in paths}


def test_a_second_sweep_takes_all_over_and_says_so(swept, tmp_path, capsys):
    first = swept("first")
    capsys.readouterr()
    second = swept("second", "store.dir=elsewhere", "trainer.workers=2")
    said = " ".join(capsys.readouterr().out.split())
    assert (first.code, second.code) == (0, 0)
    assert "8 of 8 jobs were finished already" in said
    assert results(second) == results(first)
    assert len(results(first)) == 8 * 5
    parents, jobs = found(tmp_path)
    assert (len(parents), len(jobs)) == (2, 8)
    assert summary(tmp_path, parents[0]).read_bytes() == summary(tmp_path, parents[1]).read_bytes()
    table = pd.read_csv(summary(tmp_path, parents[1], "jobs.csv"))
    assert table["status"].unique() == ["taken_over"]
    assert sorted(table["run"]) == sorted(run.info.run_id for run in jobs)


@pytest.mark.thorough
def test_what_was_not_finished_is_computed_and_the_table_is_complete(swept, tmp_path):
    swept("first", "exp=faces_to_words,words_to_faces")
    second = swept("second")
    parents, jobs = found(tmp_path)
    assert len(jobs) == 8
    table = pd.read_csv(summary(tmp_path, parents[1], "jobs.csv"))
    assert table["status"].value_counts().to_dict() == {"finished": 6, "taken_over": 2}
    assert len(pd.read_csv(summary(tmp_path, parents[1]))) == len(second.analyses()) == 20


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(change, marks=pytest.mark.thorough) for change in (["seed=1"], ["model.name=other"])),
        *(
            pytest.param(change, marks=pytest.mark.thorough)
            for change in (["resume=false"], ["protocol.k=12"])
        ),
        "vectors",
        "version",
    ],
)
def test_what_decides_the_numbers_is_computed_anew(swept, tmp_path, monkeypatch, change):
    swept("first", TWO)
    if change == "vectors":
        path = tmp_path / "lab" / "faces.safetensors"
        vectors = load_file(path)["embedding"]
        save_file({"embedding": vectors[::-1].copy()}, path)
    elif change == "version":
        monkeypatch.setitem(versions.every(), "metrics", 99)
    swept("second", TWO, *(change if isinstance(change, list) else []))
    _, jobs = found(tmp_path)
    # Only faces_to_words needs the faces.
    assert len(jobs) == 2 + (1 if change == "vectors" else 2)


@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_results_that_are_not_what_was_written_are_computed_anew(swept, tmp_path, capsys, damage):
    first = swept("first", TWO)
    _, jobs = found(tmp_path)
    folder = tmp_path / "mlruns/artifacts/precomputed" / jobs[0].info.run_id / "artifacts/results"
    if damage == "gone":
        shutil.rmtree(folder)
    else:
        (folder / "analyses.csv").write_text((folder / "analyses.csv").read_text().replace("0.", "0.9"))
    second = swept("second", TWO)
    assert f"results of run {jobs[0].info.run_id} cannot be read" in capsys.readouterr().out
    assert results(second) == results(first)
    assert len(found(tmp_path)[1]) == 3


@pytest.mark.thorough
def test_a_failed_or_killed_job_does_not_count(swept, tmp_path):
    swept("first", TWO)
    _, jobs = found(tmp_path)
    tracker = Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    for run, status in zip(jobs, ["FAILED", "KILLED"], strict=False):
        tracker.client.set_terminated(run.info.run_id, status)
    swept("second", TWO)
    assert len(found(tmp_path)[1]) == 4


@pytest.mark.thorough
def test_a_moved_checkout_goes_on(swept, tmp_path, capsys):
    first = swept("first")
    (tmp_path / "mlruns").rename(tmp_path / "there")
    (tmp_path / "new").mkdir()
    (tmp_path / "there").rename(tmp_path / "new" / "mlruns")
    second = swept("second", mlruns=tmp_path / "new")
    said = " ".join(capsys.readouterr().out.split())
    assert "was moved: the places of 10 experiments and runs are rewritten" in said
    assert "8 of 8 jobs were finished already" in said
    assert results(second) == results(first)
    assert not (tmp_path / "mlruns").exists()


@pytest.mark.thorough
def test_a_killed_sweep_goes_on_where_it_stopped(kept, sweeps, tmp_path):
    """kill -9 in the middle, the same command again: nothing twice, and the undisturbed table."""
    arguments = ["-m", "exp=glob(*_to_*)", *SHRUNK, *places(kept)]
    arguments += [f"tracking.uri=sqlite:///{tmp_path}/mlruns/mlflow.db"]
    killed(3, *arguments, f"hydra.sweep.dir={tmp_path}/killed")
    parents, jobs = found(tmp_path, "demo")
    done = [run for run in jobs if run.info.status == "FINISHED"]
    assert len(done) == 3
    assert [run.info.status for run in parents] == ["RUNNING"]
    again = command(tmp_path / "again", *arguments)
    assert again.code == 0
    parents, jobs = found(tmp_path, "demo")
    assert [run.info.status for run in parents] == ["KILLED", "FINISHED"]
    assert "process was gone" in parents[0].data.tags["ended"]
    finished = [run for run in jobs if run.info.status == "FINISHED"]
    assert len(finished) == len({run.data.tags["key"] for run in finished}) == 8
    assert {run.info.status for run in jobs} <= {"FINISHED", "KILLED"}
    undisturbed, _ = found(kept, "demo")
    last = summary(tmp_path, parents[1], dataset="demo").read_bytes()
    assert last == summary(kept, undisturbed[0], dataset="demo").read_bytes()
    assert results(again) == results(sweeps[0])
