"""The command as a user meets it: names misspelt, files missing, keys pressed."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from safetensors.numpy import load_file, save_file

from tests.commands import command
from tests.conftest import SHRUNK, places, precomputed
from tests.paths import CHECKOUT

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]


def runs(folder, dataset="precomputed"):
    client = MlflowClient(f"sqlite:///{folder}/mlruns/mlflow.db")
    ids = [e.experiment_id for e in client.search_experiments() if e.name == dataset]
    return client, client.search_runs(ids)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["protocol.kk=3"], "Key 'kk' not in 'ProtocolConfig'"),
        (["protocol.k=many"], "Value 'many' of type 'str' could not be converted to Integer"),
        (["exp=faces_to_word"], "Could not find 'exp/faces_to_word'"),
        (["-m", "model=toy_s,toy_x", "exp=glob(*_to_*)"], "Could not find 'model/toy_x'"),
        (["-m", "model=toy_s", "protocol.k=2,x"], "could not be converted to Integer"),
    ],
)
def test_a_misspelt_config_dies_before_job_0(cli, tmp_path, arguments, said):
    done = cli(*arguments, *places(tmp_path), f"hydra.run.dir={tmp_path}/o", f"hydra.sweep.dir={tmp_path}/o")
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "mlruns").exists()


def test_help_lists_what_can_be_chosen(cli):
    done = cli("--help")
    assert done.returncode == 0
    for name in (
        "toy_l, toy_m, toy_s",
        "demo, paper, photos",
        "blip2, clip_b32, clip_l14, open_clip",
        "faces_to_words",
        "model:",
        "protocol:",
    ):
        assert name in done.stdout


def test_it_runs_from_any_folder_and_paths_are_the_user_s(cli, tmp_path):
    precomputed(tmp_path / "here" / "lab")
    done = cli(
        "-m", "model=precomputed", "model.path=lab", "exp=glob(*_to_*)", *SMALL,
        "tracking.uri=sqlite:///mine/mlflow.db", "hydra.sweep.dir=out", "report=false",
        cwd=tmp_path / "here",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert (tmp_path / "here" / "mine" / "mlflow.db").is_file()
    assert (tmp_path / "here" / "mine" / "artifacts").is_dir()
    assert len(list((tmp_path / "here" / "out").glob("*/results/analyses.csv"))) == 8
    (summary,) = (tmp_path / "here" / "mine").rglob("summary.csv")
    assert pd.read_csv(summary).iloc[-1]["analyses"] == 20  # 3 groups: 2 + 6 x 3


def test_roles_that_no_experiment_needs_may_be_absent(tmp_path):
    folder = precomputed(tmp_path / "lab")
    for role in ("scenes", "labels"):
        (folder / f"{role}.parquet").unlink()
        (folder / f"{role}.safetensors").unlink()
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path)]
    assert command(tmp_path / "one", *arguments, "exp=faces_to_words").code == 0
    # Named by itself, what cannot be served is an error; inside a glob it is listed.
    assert command(tmp_path / "two", *arguments, "exp=faces_to_labels").code == 1
    swept = command(tmp_path / "all", "-m", *arguments, "exp=glob(*_to_*)")
    assert swept.code == 0
    assert sorted(swept.analyses()["exp"].unique()) == ["faces_to_words", "words_to_faces"]
    client, found = runs(tmp_path)
    (parent,) = [run for run in found if run.data.tags["kind"] == "sweep"]
    assert parent.data.metrics["not_applicable"] == 6
    assert parent.info.status == "FINISHED"
    jobs = pd.read_csv(client.download_artifacts(parent.info.run_id, "summary/jobs.csv"))
    assert sorted(jobs["status"]) == ["finished", *["not_applicable"] * 6, "taken_over"]
    assert jobs["reason"].notna().sum() == 6


def test_k_that_would_retrieve_everything_is_refused_before_work(tmp_path, capsys):
    folder = precomputed(tmp_path / "lab")
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, "protocol.k=50", *places(tmp_path)]
    swept = command(tmp_path / "one", *arguments, "exp=labels_to_scenes")
    assert swept.code == 1
    assert "protocol.k=50 of 50 scenes" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "one" / "results").exists()


def test_a_failed_job_is_recorded_and_the_sweep_goes_on(tmp_path, capsys):
    folder = precomputed(tmp_path / "lab")
    vectors = load_file(folder / "scenes.safetensors")["embedding"]
    save_file({"embedding": vectors * 2}, folder / "scenes.safetensors")
    swept = command(
        tmp_path / "all", "-m", "model=precomputed", f"model.path={folder}", "exp=glob(*_to_*)",
        *SMALL, *places(tmp_path),
    )  # fmt: skip
    assert swept.code == 1
    assert sorted(swept.analyses()["exp"].unique()) == [
        "faces_to_labels", "faces_to_words", "labels_to_faces", "words_to_faces",
    ]  # fmt: skip
    shown = capsys.readouterr().out
    assert "Failed" in shown
    assert "not of unit length" in shown
    client, found = runs(tmp_path)
    failed = [run for run in found if run.info.status == "FAILED" and run.data.tags["kind"] == "job"]
    assert len(failed) == 4
    for run in failed:
        assert [item.path for item in client.list_artifacts(run.info.run_id)] == ["traceback.txt"]
        assert run.data.tags["model"] == "lab"
        assert run.data.params["protocol.k"] == "11"
        assert len(run.data.tags["input.scenes"]) == 64
    (parent,) = [run for run in found if run.data.tags["kind"] == "sweep"]
    assert parent.info.status == "FAILED"
    assert parent.data.metrics["failed"] == 4


def test_missing_data_is_an_error_with_a_remedy_and_no_traceback(cli, tmp_path):
    done = cli(
        "dataset=photos", "dataset.root=nowhere", "exp=faces_to_words", *places(tmp_path),
        f"hydra.run.dir={tmp_path}/o", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "nowhere/fairface/fairface_label_train.csv: no such file. Set dataset.root" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_value_that_must_be_given_is_asked_for(tmp_path, capsys):
    assert command(tmp_path / "o", "model=precomputed", *places(tmp_path)).code == 1
    assert "model.path: not set. Say model.path=VALUE." in capsys.readouterr().out


def test_vectors_of_two_models_are_refused(tmp_path, capsys):
    folder = precomputed(tmp_path / "lab")
    save_file({"embedding": np.tile(np.eye(1, 8, dtype=np.float32), (90, 1))}, folder / "words.safetensors")
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path)]
    assert command(tmp_path / "o", *arguments, "exp=faces_to_words").code == 1
    assert "faces have vectors of width 16, words of width 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("protocol.k=0", "protocol.k=0: must be at least 1"),
        ("protocol.ddof=2", "protocol.ddof=2: must be from 0 to 1"),
        ("seed=-1", "seed=-1: must be at least 0"),
        ("faces.per_group=0", "faces.per_group=0: must be at least 1"),
        ("trainer.workers=-1", "trainer.workers=-1: must be at least 0"),
        ("model.path=", "model.path is empty"),
        ("demo.bias=1.5", "demo.bias=1.5: must be from 0 to 1"),
        ("protocol.extremes=40", "Set protocol.extremes=22 or less"),
        ("exp.corpus=scenes", "faces and scenes are of one modality"),
        ("dataset=photos demo.bias=0.5", "nothing is planted in dataset=photos"),
        ("exp.corpus=sounds", "no role is called 'sounds'"),
    ],
)
def test_what_cannot_be_measured_is_said(tmp_path, capsys, override, said):
    folder = precomputed(tmp_path / "lab")
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path)]
    assert command(tmp_path / "o", *arguments, "exp=faces_to_words", *override.split()).code == 1
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough)],
)
def test_an_interrupted_sweep_ends_its_runs_and_keeps_nothing_half_made(tmp_path, number, code):
    arguments = [*SHRUNK, "model.steps=100000", *places(tmp_path), f"hydra.sweep.dir={tmp_path}/o"]
    process = subprocess.Popen(
        [sys.executable, "-m", "src.run", "-m", "exp=faces_to_words,faces_to_labels", *arguments],
        cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        # A background shell has its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 300
    said = ""
    while "training shrunk" not in said and time.monotonic() < deadline:
        said += process.stdout.readline()
    time.sleep(3)
    os.kill(process.pid, number)
    try:
        rest, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == code, said + rest
    assert "Interrupted" in rest
    assert "Traceback" not in rest
    _, found = runs(tmp_path, "demo")
    assert {run.info.status for run in found} == {"KILLED"}
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_table_of_results_is_written_whole(tmp_path):
    folder = precomputed(tmp_path / "lab")
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path), "exp=faces_to_words"]
    for _ in range(2):  # twice into the same folder
        assert command(tmp_path / "o", *arguments).code == 0
    assert sorted(path.name for path in (tmp_path / "o").iterdir() if path.name[0] != ".") == [
        "results", "run.log",
    ]  # fmt: skip
    assert len(pd.read_csv(tmp_path / "o" / "results" / "analyses.csv")) == 3


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.heads=7", "model.heads=7 must divide model.width=64"),
        ("model.learning_rate=nan", "model.learning_rate=nan: must be from 0 to 1"),
        ("model.steps=-1", "model.steps=-1: must be at least 0"),
        ("trainer.accelerator=abacus", "trainer.accelerator=abacus"),
    ],
)
def test_a_toy_that_cannot_be_is_refused_before_training(kept, tmp_path, capsys, override, said):
    swept = command(tmp_path / "o", *SHRUNK, *places(kept), override, "exp=faces_to_words")
    assert (swept.code, swept.trained) == (1, 0)
    shown = capsys.readouterr().out
    assert said in shown
    assert "Traceback" not in shown


def test_two_folders_of_one_name_are_told_apart(tmp_path):
    folders = [precomputed(tmp_path / name / "lab", seed) for seed, name in enumerate("ab")]
    swept = command(
        tmp_path / "o", "-m", "model=precomputed", f"model.path={folders[0]},{folders[1]}",
        "exp=faces_to_words,words_to_faces", *SMALL, *places(tmp_path),
    )  # fmt: skip
    assert swept.code == 0
    assert sorted(swept.analyses()["model"].unique()) == ["lab", f"lab+model.path={folders[1]}"]


def test_groups_that_faces_and_labels_do_not_share_are_an_error(tmp_path, capsys):
    folder = precomputed(tmp_path / "lab")
    frame = pd.read_parquet(folder / "faces.parquet")
    frame.assign(group=frame["group"].str.upper()).to_parquet(folder / "faces.parquet")
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path)]
    assert command(tmp_path / "o", *arguments, "exp=labels_to_faces").code == 1
    assert "no group is in both" in capsys.readouterr().out


def test_a_glob_that_matches_nothing_is_an_error(cli, tmp_path):
    done = cli("-m", "exp=glob(zzz*)", *places(tmp_path), f"hydra.sweep.dir={tmp_path}/o")
    assert done.returncode == 1
    assert "a glob matched nothing" in done.stderr


@pytest.mark.parametrize("more", [[], ["-m"]])
def test_a_folder_that_takes_no_files_is_named_before_hydra_stumbles(tmp_path, capsys, more):
    folder = precomputed(tmp_path / "lab")
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path), "exp=faces_to_words"]
    (tmp_path / "o").write_text("")
    assert command(tmp_path / "o", *more, *arguments).code == 1
    shown = capsys.readouterr()
    option = "hydra.sweep.dir" if more else "hydra.run.dir"
    assert f"{tmp_path}/o: cannot be written (File exists). Make room, or set {option} to" in shown.err
    assert "Traceback" not in shown.out + shown.err
    assert not (tmp_path / "mlruns").exists()


def test_a_fault_of_the_program_is_recorded_with_its_traceback(tmp_path, monkeypatch):
    from src.studies.propagation import experiment

    def fail(*_):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(experiment, "check", fail)
    folder = precomputed(tmp_path / "lab")
    arguments = ["model=precomputed", f"model.path={folder}", *SMALL, *places(tmp_path)]
    assert command(tmp_path / "o", *arguments, "exp=faces_to_words").code == 1
    client, (run,) = runs(tmp_path)
    assert run.info.status == "FAILED"
    assert [item.path for item in client.list_artifacts(run.info.run_id)] == ["traceback.txt"]
