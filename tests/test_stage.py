"""The stages of the pipeline, and its lock."""

import json
import re
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from src import stage
from src.embeddings import pruning
from src.errors import InputError
from src.storage.versions import every
from tests.conftest import SHRUNK, places
from tests.paths import CHECKOUT


def test_stages_leave_what_a_sweep_by_hand_reads(kept, sweeps, tmp_path):
    there = [*places(kept), f"store.dir={tmp_path}/e", f"store.stimuli={tmp_path}/s", *SHRUNK]
    assert stage.main(["ingest", *there]) == 0
    assert stage.main(["morph", *there]) == 0
    said = json.loads((tmp_path / "s" / "tables.json").read_text())
    assert {role: found["rows"] for role, found in said.items()} == {
        "faces": 360, "scenes": 300, "words": 1800, "labels": 5184,
    }  # fmt: skip
    for name in ("weights", "embed --role faces", "embed --role words"):
        assert stage.main([*name.split(), *there]) == 0
    mine = pruning.listing(tmp_path / "e")
    theirs = pruning.listing(kept / "embeddings")
    assert sorted(mine["role"]) == ["faces", "words"]
    assert set(mine["entry"]) < set(theirs["entry"])
    for name in mine["entry"]:
        paths = [root / name / "embedding.safetensors" for root in (tmp_path / "e", kept / "embeddings")]
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_table_gathers_every_job(sweeps, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "toy").symlink_to(sweeps[0].output)
    assert stage.main(["table", str(tmp_path / "in" / "toy"), "--output", str(tmp_path / "out")]) == 0
    analyses = pd.read_csv(tmp_path / "out" / "analyses.csv")
    assert len(analyses) == 38
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["mean"] == pytest.approx(analyses["rho"].mean())
    assert metrics["analyses"] + metrics["undefined"] == 38
    assert (tmp_path / "out" / "heatmap.png").is_file()


def test_a_model_that_the_pipeline_no_longer_names_is_not_in_its_table(sweeps, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for model in ("toy", "other"):
        (tmp_path / "in" / model).mkdir(parents=True)
        shutil.copytree(sweeps[0].results("faces_to_words"), tmp_path / "in" / model / "job" / "results")
    (tmp_path / "params.yaml").write_text("models: [toy]\n")
    asked = ["table", "in", "--output", "out", "--params", "models"]
    assert stage.main(asked) == 1
    assert "Remove in/other" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    shutil.rmtree(tmp_path / "in" / "other")
    assert stage.main(asked) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["table", "nowhere", "--output", "o"], "Run a sweep into it"), (["weights", "model=toy_x"], "toy_x")],
)
def test_a_mistake_is_an_error_without_a_traceback(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert stage.main(arguments) == 1
    assert said in capsys.readouterr().err


def test_the_lock_is_of_these_sources_and_params():
    """What git holds of the pipeline's inputs is what dvc.lock was written for (else: make repro)."""
    said = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "--json"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    made = ("data/", "outputs/", "docs/")
    stale = [
        (name, path)
        for name, changes in json.loads(said.stdout).items()
        for change in changes
        for path in (["its command"] if isinstance(change, str) else change.get("changed deps", {}))
        if not path.startswith(made)
    ]
    assert stale == []


def test_params_become_overrides(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "dataset: paper\nfaces: {per_group: 7, parents: {races: {A: [x, 'y z']}}}\n"
        "labels: {}\nscenes: {root: null}\n"
    )
    said = stage.chosen(["dataset", "faces", "labels", "scenes"], tmp_path / "p.yaml")
    assert said == [
        "dataset=paper",
        "faces.per_group=7",
        'faces.parents.races.A=[x,"y z"]',
        "scenes.root=null",
    ]
    with pytest.raises(InputError, match="no words. Add it"):
        stage.chosen(["words"], tmp_path / "p.yaml")
    with pytest.raises(InputError, match="no such file"):
        stage.chosen(["words"], tmp_path / "q.yaml")


def test_stages_depend_on_every_parameter_that_they_are_given():
    """Also where what they read depends on it: model.precision leaves the weights as they are."""
    pipeline = yaml.safe_load((CHECKOUT / "dvc.yaml").read_text())
    names = {name: value for entry in pipeline["vars"] for name, value in entry.items()}
    for name, described in pipeline["stages"].items():
        (given,) = re.findall(r"--params (\S+)", described["cmd"])
        for variable, value in names.items():
            given = given.replace(f"${{{variable}}}", value)
        of_params = [entry for entry in described["params"] if isinstance(entry, str)]
        assert of_params == given.split(","), name


def test_code_enters_the_pipeline_by_declared_versions_alone():
    stages = yaml.safe_load((CHECKOUT / "dvc.yaml").read_text())["stages"]
    parts = set(every())
    for name, described in stages.items():
        assert not [path for path in described["deps"] if path.startswith("src")], name
        (listed,) = [entry["src/versions.yaml"] for entry in described["params"] if isinstance(entry, dict)]
        assert {entry.removesuffix(".version") for entry in listed} <= parts, name
        assert all(entry.endswith(".version") for entry in listed), name


def test_params_are_those_of_the_config():
    """The pipeline reproduces what the YAMLs say: an edit of one is an edit of both."""
    params = yaml.safe_load((CHECKOUT / "params.yaml").read_text())

    def written(path):
        return yaml.safe_load((CHECKOUT / "conf" / path).read_text())

    assert params["faces"]["per_group"] == written("faces/avatars.yaml")["per_group"]
    assert params["scenes"]["count"] == written("scenes/abstract.yaml")["count"]
    assert params["words"]["count"] == written("words/vader.yaml")["count"]
    assert params["demo"]["bias"] == written("dataset/demo.yaml")["demo"]["bias"]
    assert params["protocol"]["k"] == written("protocol/paper.yaml")["k"]
    for model in params["models"]:
        toy = written(f"model/{model}.yaml")
        assert params["model"] == {"steps": toy["steps"], "seed": toy["seed"]}


def test_the_lock_holds_no_stage_that_is_gone():
    stages = yaml.safe_load((CHECKOUT / "dvc.yaml").read_text())["stages"]
    locked = yaml.safe_load((CHECKOUT / "dvc.lock").read_text())["stages"]
    assert {name.split("@")[0] for name in locked} == set(stages)
