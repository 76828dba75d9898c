"""Check the command line: misspelt names, missing files, interrupts."""

import json
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from tests.commands import SMALL, TINY, command
from tests.conftest import precomputed, store_overrides
from tests.launched import Started, runs_below, summary_file


@pytest.fixture
def lab(tmp_path):
    return precomputed(tmp_path / "lab")


@pytest.fixture
def analyse(lab, tmp_path):
    """Return a function that runs the entry on precomputed vectors, into a folder `o`."""
    arguments = ["model=precomputed", f"model.path={lab}", "exp=faces_to_words"]
    arguments += [*SMALL, *store_overrides(tmp_path)]

    def run(*overrides, flags=()):
        return command(tmp_path / "o", *flags, *arguments, *overrides)

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["protocol.kk=3"], "Key 'kk' not in 'ProtocolConfig'"),
        (["-m", "exp=glob(zzz*)"], "a glob matched nothing"),
        (["-m", "model=toy_s,toy_x", "exp=glob(*_to_*)"], "Could not find 'model/toy_x'"),
        (["-m", "model=toy_s", "protocol.k=2,x"], "could not be converted to Integer"),
    ],
)
def test_a_misspelt_config_dies_before_job_0(tmp_path, capsys, arguments, message):
    assert command(tmp_path / "o", *arguments, *store_overrides(tmp_path)).code == 1
    displayed = capsys.readouterr()
    assert message in displayed.err
    assert "Traceback" not in displayed.out + displayed.err
    assert not (tmp_path / "mlruns").exists()


def test_help_lists_what_can_be_chosen(tmp_path, capsys):
    with pytest.raises(SystemExit, match="0"):
        command(tmp_path / "o", "--help")
    displayed = capsys.readouterr().out
    choices = (
        "toy_l, toy_m, toy_s",
        "demo, demo_languages, demo_people, demo_places, paper",
        "chinese_clip_b16, clip_b32, clip_b32_hf",
    )
    for name in (*choices, "faces_to_words", "model:", "protocol:"):
        assert name in displayed


def test_it_runs_from_any_folder(tmp_path, monkeypatch):
    precomputed(tmp_path / "here" / "lab")
    monkeypatch.chdir(tmp_path / "here")
    chosen = ["model=precomputed", "model.path=lab", "exp=glob(scenes_to_*)", *SMALL, "report=false"]
    swept = command(Path("out"), "-m", *chosen, "tracking.uri=sqlite:///mine/mlflow.db")
    assert swept.code == 0
    assert {"mlflow.db", "artifacts"} <= {path.name for path in (tmp_path / "here" / "mine").iterdir()}
    assert len(list((tmp_path / "here" / "out").glob("*/results/analyses.csv"))) == 2
    (summary,) = (tmp_path / "here" / "mine").rglob("summary.csv")
    assert pd.read_csv(summary).iloc[-1]["analyses"] == 4  # to words: one; to labels: one per group


@pytest.mark.thorough
def test_roles_that_no_experiment_needs_may_be_absent(lab, analyse, tmp_path):
    for role in ("scenes", "labels"):
        (lab / f"{role}.parquet").unlink()
        (lab / f"{role}.safetensors").unlink()
    assert analyse().code == 0
    # An experiment without its vectors is an error if it is named, and listed as not applicable in a glob.
    assert analyse("exp=faces_to_labels").code == 1
    swept = analyse("exp=glob(*_to_*)", flags=["-m"])
    assert swept.code == 0
    assert sorted(swept.analyses()["exp"].unique()) == ["faces_to_words", "words_to_faces"]
    (parent,), _ = runs_below(tmp_path)
    assert (parent.info.status, parent.data.metrics["not_applicable"]) == ("FINISHED", 6)
    jobs = pd.read_csv(summary_file(tmp_path, parent, "jobs.csv"))
    assert sorted(jobs["status"]) == ["finished", *["not_applicable"] * 6, "taken_over"]
    assert jobs["reason"].notna().sum() == 6


def test_two_jobs_with_the_same_folder_are_refused(lab, analyse, capsys):
    assert analyse("seed=0,1", "hydra.sweep.subdir=same", flags=["-m"]).code == 1
    assert "Set hydra.sweep.subdir to differ" in " ".join(capsys.readouterr().out.split())


def test_a_failed_job_is_recorded_and_the_sweep_continues(lab, analyse, tmp_path, capsys):
    vectors = load_file(lab / "scenes.safetensors")["embedding"]
    save_file({"embedding": vectors * 2}, lab / "scenes.safetensors")
    swept = analyse("exp=glob(*_to_*)", flags=["-m"])
    assert (swept.code, swept.analyses()["exp"].nunique()) == (1, 4)
    printed = capsys.readouterr().out
    assert "Failed" in printed
    assert "not of unit length" in printed
    (parent,), jobs = runs_below(tmp_path)
    failed = [run for run in jobs if run.info.status == "FAILED"]
    assert len(failed) == 4
    for run in failed:
        folder = tmp_path / f"mlruns/artifacts/precomputed/{run.info.run_id}/artifacts"
        assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "traceback.txt"]
        assert (run.data.tags["model"], run.data.params["protocol.k"]) == ("lab", "11")
        assert len(json.loads(run.data.tags["inputs"])["input.scenes"]) == 64
        assert "50 vectors are not of unit length" in run.data.tags["mlflow.note.content"]
    assert (parent.info.status, parent.data.metrics["failed"]) == ("FAILED", 4)


def test_missing_data_is_an_error_with_a_remedy_and_no_traceback(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    missing = ["dataset=photos", "dataset.root=nowhere", "exp=faces_to_words"]
    assert command(tmp_path / "o", *missing, *store_overrides(tmp_path)).code == 1
    displayed = capsys.readouterr()
    message = "nowhere/fairface/fairface_label_train.csv: no such file. Set dataset.root"
    assert message in " ".join(displayed.out.split())
    assert "Traceback" not in displayed.out + displayed.err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("protocol.k=0", "protocol.k=0: must be at least 1"),
        ("model.path=", "model.path is empty"),
        ("protocol.extremes=40", "Set protocol.extremes=22 or less"),
        ("exp.corpus=scenes", "got faces and scenes"),
        ("dataset=photos demo.bias=0.5", "dataset=photos has no planted bias"),
        ("exp=labels_to_scenes protocol.k=50", "protocol.k=50 of 50 scenes"),
    ],
)
def test_values_that_cannot_be_measured_are_refused(analyse, tmp_path, capsys, override, message):
    assert analyse(*override.split()).code == 1
    assert message in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "o" / "results").exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.exhaustive)],
)
def test_an_interrupted_sweep_ends_its_runs_without_partial_results(tmp_path, number, code):
    endless = ["-m", "exp=faces_to_words,faces_to_labels", *TINY, "model.steps=100000"]
    with Started(tmp_path / "o", [*endless, *store_overrides(tmp_path)]) as sweep:
        for line in sweep.process.stdout:
            if "training tiny" in line:
                break
        time.sleep(3)
        sweep.process.send_signal(number)
        status, printed = sweep.wait(300)
    assert status == code, printed
    assert "Interrupted" in printed
    assert "Traceback" not in printed
    assert {run.info.status for runs in runs_below(tmp_path, "demo") for run in runs} == {"KILLED"}
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_an_unwritable_output_folder_is_named_before_hydra_starts(analyse, tmp_path, capsys):
    (tmp_path / "o").write_text("")
    assert analyse(flags=["-m"]).code == 1
    printed = capsys.readouterr()
    assert (
        f"{tmp_path}/o: cannot be written (File exists). Free disk space, or set hydra.sweep.dir"
        in printed.err
    )
    assert "Traceback" not in printed.out + printed.err
    assert not (tmp_path / "mlruns").exists()
