"""Check the stages of the pipeline, and its lock."""

import hashlib
import json
import re
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from src import stage
from src.configs.composition import quote
from src.embeddings import pruning
from src.errors import InputError
from src.storage.versions import all_declared_versions
from tests.conftest import SHRUNK, store_overrides
from tests.paths import CHECKOUT

PIPELINE = yaml.safe_load((CHECKOUT / "dvc.yaml").read_text())


def test_stages_store_the_same_bytes_as_a_sweep(stores, sweeps, tmp_path):
    overrides = [*store_overrides(stores), f"store.dir={tmp_path}/e", f"store.stimuli={tmp_path}/s", *SHRUNK]
    assert stage.main(["ingest", "--output", str(tmp_path / "t"), *overrides]) == 0
    assert stage.main(["morph", *overrides]) == 0
    tables = json.loads((tmp_path / "t" / "tables.json").read_text())
    rows = {role: table["rows"] for role, table in tables.items()}
    assert rows == {"faces": 360, "scenes": 300, "words": 1800, "labels": 5184}
    frames = {role: pd.read_parquet(tmp_path / "t" / f"{role}.parquet") for role in rows}
    assert {role: len(frame) for role, frame in frames.items()} == rows
    assert not any("path" in frame for frame in frames.values())
    for name in ("weights", "embed --role faces", f"embed --role words --output {tmp_path / 'v'}"):
        assert stage.main([*name.split(), *overrides]) == 0
    staged = pruning.list_entries(tmp_path / "e")
    swept = pruning.list_entries(stores / "embeddings")
    assert sorted(staged["role"]) == ["faces", "words"]
    assert set(staged["entry"]) < set(swept["entry"])
    for name in staged["entry"]:
        paths = [root / name / "embedding.safetensors" for root in (tmp_path / "e", stores / "embeddings")]
        assert paths[0].read_bytes() == paths[1].read_bytes()
    (vectors_path,) = (tmp_path / "e" / "words").glob("*/embedding.safetensors")
    digest = hashlib.sha256(vectors_path.read_bytes()).hexdigest()
    described = json.loads((tmp_path / "v" / "vectors.json").read_text())
    assert (described["sha256"], described["shape"][0]) == (digest, 1800)


def test_the_table_has_the_analyses_of_every_job(sweeps, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "toy").symlink_to(sweeps[0].output)
    assert stage.main(["table", str(tmp_path / "in" / "toy"), "--output", str(tmp_path / "out")]) == 0
    analyses = pd.read_csv(tmp_path / "out" / "analyses.csv")
    assert len(analyses) == 38
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["mean"] == pytest.approx(analyses["rho"].mean())
    assert metrics["analyses"] + metrics["undefined"] == 38
    assert (tmp_path / "out" / "heatmap.png").is_file()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("analyses.csv", ["analyses.csv"]), ("*", ["analyses.csv", "draws.parquet", "targets.parquet"])],
)
def test_results_that_match_the_pattern_remain(monkeypatch, tmp_path, pattern, expected):
    def sweep(command, check):
        for name in ("run.log", "results/analyses.csv", "results/targets.parquet", "results/draws.parquet"):
            (tmp_path / "words_to_faces" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "words_to_faces" / name).touch()
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", sweep)
    arguments = ["propagate", "--output", str(tmp_path), "--results", pattern, "model=toy_s"]
    assert stage.main(arguments) == 3
    assert sorted(path.name for path in tmp_path.glob("*/results/*")) == expected
    assert (tmp_path / "words_to_faces" / "run.log").exists()


def test_params_become_overrides(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text("dataset: paper\nfaces: {per_group: 7, parents: {races: {A: [x, 'y z']}}}\nlabels: {}\n")
    overrides = stage.read_overrides(["dataset", "faces", "labels"], path)
    assert overrides == ["dataset=paper", "faces.per_group=7", 'faces.parents.races.A=[x,"y z"]']
    text = 'a\\"b\\\n'  # Hydra must parse it back unchanged
    assert OverridesParser.create().parse_override(f"name={quote(text)}").value() == text
    with pytest.raises(InputError, match="words missing. Add `NAME"):
        stage.read_overrides(["words"], path)
    assert stage.main(["table", str(tmp_path / "nowhere"), "--output", "o"]) == 1
    assert "Run a sweep with hydra.sweep.dir=" in capsys.readouterr().err
    (tmp_path / "job" / "results").mkdir(parents=True)
    (tmp_path / "job" / "results" / "analyses.csv").write_text("rho\n")
    assert stage.main(["table", str(tmp_path / "job"), "--output", "o"]) == 1
    assert "the folder of a single job" in capsys.readouterr().err


def test_the_lock_is_of_these_stages_sources_and_params():
    """Compare the inputs in git with those of dvc.lock (if they differ: make repro)."""
    status = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "--json"], cwd=CHECKOUT, capture_output=True, check=True
    )
    lock = yaml.safe_load((CHECKOUT / "dvc.lock").read_text())
    assert {name.split("@")[0] for name in lock["stages"]} == {*PIPELINE["stages"]}
    outputs = ("data/", "outputs/", "docs/")
    stale = [
        (name, path)
        for name, changes in json.loads(status.stdout).items()
        for change in changes
        for path in (["its command"] if isinstance(change, str) else change.get("changed deps", {}))
        if not path.startswith(outputs)
    ]
    assert stale == []


def test_stages_depend_on_their_parameters_and_on_code_by_declared_versions_alone():
    """Check `params` and `deps` of each stage.

    `params` lists exactly what `--params` passes on, and a stage depends on code only by existing entries of
    src/versions.yaml.
    """
    variables = {name: value for entry in PIPELINE["vars"] for name, value in entry.items()}
    for name, stage_yaml in PIPELINE["stages"].items():
        (given,) = re.findall(r"--params (\S+)", stage_yaml["cmd"])
        for variable, value in variables.items():
            given = given.replace(f"${{{variable}}}", value)
        declared = [entry for entry in stage_yaml["params"] if isinstance(entry, str)]
        assert declared == given.split(","), name
        assert not [path for path in stage_yaml["deps"] if path.startswith("src")], name
        (listed,) = [entry["src/versions.yaml"] for entry in stage_yaml["params"] if isinstance(entry, dict)]
        assert {entry.removesuffix(".version") for entry in listed} <= set(all_declared_versions()), name
        assert all(entry.endswith(".version") for entry in listed), name


def test_stages_list_the_versions_of_all_encoders_and_scores():
    for piece in all_declared_versions():
        if piece.startswith(("encoders.", "intrinsic.", "extrinsic.")):
            name = "embed" if piece.startswith("encoders.") else "propagate"
            *_, listed = PIPELINE["stages"][name]["params"]
            assert f"{piece}.version" in listed["src/versions.yaml"]


def test_stages_that_read_stimuli_depend_on_their_tables():
    for name in ("morph", "weights", "embed", "propagate"):
        assert "data/tables/${dataset}" in PIPELINE["stages"][name]["deps"], name
    assert "conf/dataset/${dataset}.yaml" in PIPELINE["stages"]["propagate"]["deps"]


def test_params_are_those_of_the_config():
    """Compare params.yaml with the YAMLs, which have to be edited together."""
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
