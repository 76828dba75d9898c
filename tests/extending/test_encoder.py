"""Add an encoder family from a test's own folder, up to MLflow and the report."""

from dataclasses import replace

import pytest
from mlflow import MlflowClient
from PIL import Image
from safetensors.numpy import load_file

from src import encoders
from src.configs import compose
from src.jobs.identity import Job
from tests.extending.conftest import WORLD

COLOURS = ["model=colours", *WORLD]


def test_a_family_runs_and_is_in_the_report(tmp_path, run, jobs, tracker, capsys):
    from colours import Colours

    swept = run("out", *COLOURS, "exp=faces_to_words,cles_warmth")
    assert swept.code == 0, capsys.readouterr().out
    assert "colours" in (swept.output / "report" / "index.html").read_text()
    for job in jobs():
        assert job.tags["model"] == "colours"
        assert (job.tags["pretraining"], job.tags["weights.revision"]) == ("none", "drawn")
        params = MlflowClient(tracker.uri).get_run(job.id).data.params
        assert (params["model.family"], params["model.options.width"]) == ("colours:FAMILY", "16")
    # The stored vectors hold what the network returns for a picture.
    (entry,) = (tmp_path / "embeddings" / "faces").iterdir()
    vectors = load_file(entry / "embedding.safetensors")["embedding"]
    first = min((tmp_path / "stimuli").rglob("*-000*.png"))
    pixels = Colours(16).transform(Image.open(first).convert("RGB"))
    assert abs(vectors @ Colours(16).encode_images(pixels[None])[0].numpy() - 1).min() < 1e-6


@pytest.mark.thorough
def test_an_option_and_the_version_are_in_its_keys(tmp_path, run, monkeypatch):
    import colours

    def keys():
        encoders._encoders.clear()
        for width in (16, 8):
            run(f"o{width}", *COLOURS, "report=false", f"model.options.width={width}", sweep=False)
        return {entry.name for entry in (tmp_path / "embeddings" / "faces").iterdir()}

    assert len(keys()) == len(keys()) == 2
    monkeypatch.setattr(colours, "FAMILY", replace(colours.FAMILY, version=2))
    assert len(keys()) == 4


def test_the_place_of_the_code_is_in_no_key(folder):
    composed, choices = compose([f"hydra.searchpath=[file://{folder / 'conf'}]", "model=colours"])
    job = Job.of(composed, choices, "")
    composed.model.family = "tests.extending.encoder.colours:FAMILY"
    assert Job.of(composed, choices, "").config_hash == job.config_hash
    composed.model.options.width = 8
    other = Job.of(composed, choices, "")
    assert other.config_hash != job.config_hash
    assert (job.model, other.model) == ("colours", "colours+width=8")
