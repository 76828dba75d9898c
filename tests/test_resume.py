"""Check which finished jobs are reused: after failures, kills and changes, and in a moved checkout."""

import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from src.storage import versions
from src.tracking import Tracker
from tests.commands import command, killed
from tests.conftest import SHRUNK, precomputed, store_overrides
from tests.launched import SMALL, result_files, runs_below, summary_file

CHANGES = ("seed=1", "model.name=other", "resume=false", "protocol.k=12")
TWO = "exp=faces_to_words,words_to_scenes"


@pytest.fixture
def swept(tmp_path):
    """Return a function that sweeps over a folder of vectors."""
    folder = precomputed(tmp_path / "lab")

    def run(name, *overrides, mlruns=tmp_path):
        arguments = ["model=precomputed", f"model.path={folder}", "exp=glob(*_to_*)", *SMALL]
        return command(tmp_path / name, "-m", *arguments, *store_overrides(mlruns), *overrides)

    return run


@pytest.mark.thorough
def test_failed_and_killed_jobs_are_computed_again(swept, tmp_path):
    swept("first", "exp=faces_to_words,words_to_faces,faces_to_labels,labels_to_faces")
    _, jobs = runs_below(tmp_path)
    tracker = Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    for run, status in zip(jobs, ["FAILED", "KILLED"], strict=False):
        tracker.client.set_terminated(run.info.run_id, status)
    second = swept("second")
    parents, jobs = runs_below(tmp_path)
    assert len(jobs) == 10
    table = pd.read_csv(summary_file(tmp_path, parents[1], "jobs.csv"))
    assert table["status"].value_counts().to_dict() == {"finished": 6, "taken_over": 2}
    summary = pd.read_csv(summary_file(tmp_path, parents[1], "analyses.csv"))
    assert len(summary) == len(second.analyses()) == 20


@pytest.mark.parametrize(
    "change",
    [
        pytest.param([CHANGES[0]], marks=pytest.mark.thorough),
        *(pytest.param([text], marks=pytest.mark.exhaustive) for text in CHANGES[1:]),
        "vectors",
        pytest.param("version", marks=pytest.mark.thorough),
    ],
)
def test_changed_settings_vectors_or_versions_are_computed_again(swept, tmp_path, monkeypatch, change):
    swept("first", TWO)
    if change == "vectors":
        path = tmp_path / "lab" / "faces.safetensors"
        vectors = load_file(path)["embedding"]
        save_file({"embedding": vectors[::-1].copy()}, path)
    elif change == "version":
        monkeypatch.setitem(versions.all_declared_versions(), "metrics", 99)
    swept("second", TWO, *(change if isinstance(change, list) else []))
    _, jobs = runs_below(tmp_path)
    # Only faces_to_words needs the faces.
    assert len(jobs) == 2 + (1 if change == "vectors" else 2)


@pytest.mark.thorough
def test_a_moved_checkout_resumes(swept, tmp_path, capsys):
    first = swept("first")
    (tmp_path / "new").mkdir()
    (tmp_path / "mlruns").rename(tmp_path / "new" / "mlruns")
    second = swept("second", mlruns=tmp_path / "new")
    output = " ".join(capsys.readouterr().out.split())
    assert "was moved: updated the paths of 10 experiments and runs" in output
    assert "8 of 8 jobs were finished already" in output
    assert result_files(second.output) == result_files(first.output)
    assert not (tmp_path / "mlruns").exists()


@pytest.mark.thorough
def test_a_killed_sweep_resumes(stores, sweeps, tmp_path):
    """Run a sweep that was killed (-9) again: no job is run twice, and the table is complete."""
    arguments = ["-m", "exp=glob(*_to_*)", *SHRUNK, *store_overrides(stores)]
    arguments += [f"tracking.uri=sqlite:///{tmp_path}/mlruns/mlflow.db"]
    killed(3, *arguments, f"hydra.sweep.dir={tmp_path}/killed")
    parents, jobs = runs_below(tmp_path, "demo")
    done = [run for run in jobs if run.info.status == "FINISHED"]
    assert len(done) == 3
    assert [run.info.status for run in parents] == ["RUNNING"]
    again = command(tmp_path / "again", *arguments)
    assert again.code == 0
    parents, jobs = runs_below(tmp_path, "demo")
    assert [run.info.status for run in parents] == ["KILLED", "FINISHED"]
    assert "process had died" in parents[0].data.tags["ended"]
    finished = [run for run in jobs if run.info.status == "FINISHED"]
    assert len(finished) == len({run.data.tags["key"] for run in finished}) == 8
    assert {run.info.status for run in jobs} <= {"FINISHED", "KILLED"}
    undisturbed, _ = runs_below(stores, "demo")
    resumed = summary_file(tmp_path, parents[1], "analyses.csv", "demo").read_bytes()
    assert resumed == summary_file(stores, undisturbed[0], "analyses.csv", "demo").read_bytes()
    assert result_files(again.output) == result_files(sweeps[0].output)
