"""An encoder family of a test's own folder goes through the command line into MLflow and the report."""

import sys
from pathlib import Path

import pytest
from PIL import Image

from src import encoders
from src.configs import compose
from src.jobs.identity import Job
from tests.commands import command
from tests.conftest import places

FOLDER = Path(__file__).with_name("encoder")
SMALL = [
    *("faces.per_group=12", "scenes.count=60", "words.count=60", "protocol.k=11", "protocol.extremes=6"),
    *("protocol.set_size=15", "trainer=cpu", "trainer.workers=0"),
]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Its folder is on PYTHONPATH."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("colours", None)


def typed(tmp_path, *more):
    *stores, _ = places(tmp_path)
    return [f"--config-dir={FOLDER / 'conf'}", "model=colours", *SMALL, *stores, *more]


def test_a_family_runs_and_is_in_the_report(tmp_path, capsys):
    from mlflow import MlflowClient
    from safetensors.numpy import load_file

    from src.tracking import Tracker, children, sweeps

    swept = command(tmp_path / "out", "-m", *typed(tmp_path, "exp=faces_to_words,cles_warmth"))
    assert swept.code == 0, capsys.readouterr().out
    assert "colours" in (swept.output / "report" / "index.html").read_text()
    uri = f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    tracker = Tracker(uri)
    runs = children(tracker, *sweeps(tracker))
    for run in runs:
        assert run.tags["model"] == "colours"
        assert (run.tags["pretraining"], run.tags["weights.revision"]) == ("none", "drawn")
        params = MlflowClient(uri).get_run(run.id).data.params
        assert (params["model.family"], params["model.options.width"]) == ("colours:FAMILY", "16")
    # Its vectors are what its network makes of a picture.
    from colours import Colours

    (entry,) = (tmp_path / "embeddings" / "faces").iterdir()
    vectors = load_file(entry / "embedding.safetensors")["embedding"]
    first = min((tmp_path / "stimuli").rglob("*-000*.png"))
    pixels = Colours(16).transform(Image.open(first).convert("RGB"))
    assert abs(vectors @ Colours(16).encode_images(pixels[None])[0].numpy() - 1).min() < 1e-6


def test_an_option_and_the_version_are_in_its_keys(tmp_path, monkeypatch):
    from dataclasses import replace

    import colours

    def keys():
        encoders._open.clear()
        for width in (16, 8):
            command(tmp_path / f"o{width}", *typed(tmp_path, "report=false", f"model.options.width={width}"))
        return {entry.name for entry in (tmp_path / "embeddings" / "faces").iterdir()}

    assert len(keys()) == len(keys()) == 2
    monkeypatch.setattr(colours, "FAMILY", replace(colours.FAMILY, version=2))
    assert len(keys()) == 4


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("+model.options.wide=3", "model.options: Key 'wide'"),
        ("model.options.width=many", "model.options: Value 'many'"),
        ("model.options.width=1", "model.width=1: must be at least 2"),
        ("model.family=open_clp", "model.family: unknown name 'open_clp'. Did you mean 'open_clip'?"),
        ("model.family=colour:FAMILY", "model.family=colour:FAMILY: cannot be imported"),
        ("model.family=colours:FAMILIES", "model.family=colours:FAMILIES: cannot be imported"),
        ("model.family=colours:encoder", "expected EncoderFamily, got function"),
        ("exp.study=colours:FAMILY", "expected Study, got EncoderFamily"),
    ],
)
def test_mistakes_are_named(tmp_path, capsys, mistake, message):
    assert command(tmp_path / "o", *typed(tmp_path, mistake)).code == 1
    output = capsys.readouterr()
    assert message in output.err + output.out
    assert "Traceback" not in output.err + output.out


def test_the_place_of_the_code_is_in_no_key(tmp_path):
    folder = f"hydra.searchpath=[file://{FOLDER / 'conf'}]"
    composed, choices = compose([folder, "model=colours"])
    job = Job.of(composed, choices, "")
    composed.model.family = "tests.extending.encoder.colours:FAMILY"
    assert Job.of(composed, choices, "").config_hash == job.config_hash
    composed.model.options.width = 8
    other = Job.of(composed, choices, "")
    assert other.config_hash != job.config_hash
    assert (job.model, other.model) == ("colours", "colours+width=8")
