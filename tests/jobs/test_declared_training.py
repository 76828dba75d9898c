"""Check that what authors declare of a model's training reaches the report through tags and metrics."""

import math
from types import SimpleNamespace

from src import encoders
from src.encoders import verification
from src.jobs import run_metadata
from src.report import load
from src.tracking import StoredRun


def test_declared_training_reaches_the_report(job, monkeypatch):
    """Follow a model of LAION-2B, one without declared training, and a toy."""
    weights = SimpleNamespace(identify_weights=lambda: {"revision": "r", "sha256": "s"})
    monkeypatch.setattr(encoders, "open_encoder", lambda *_: weights)
    monkeypatch.setattr(verification, "read_status", lambda *_: "not verified")
    monkeypatch.setattr(run_metadata, "load_study", lambda _: SimpleNamespace(metrics=lambda _: {}))
    runs = {}
    for name, overrides in {
        "laion": ["model=open_clip", "model.id=ViT-B-32/laion2b_s34b_b79k"],
        "unknown": ["model=hf", "model.id=owner/name"],
        "toy": ["model=toy_s"],
    }.items():
        tried = job(*overrides)
        tags = run_metadata.build_model_tags(tried) | {"model": name}
        runs[name] = StoredRun(
            name, "demo", "FINISHED", "", tags, run_metadata.collect_metrics(tried, result=None)
        )
    assert "filter" not in runs["unknown"].tags
    models = load.collect_model_facts(runs, [*runs]).set_index("model")
    assert models["filter"].tolist() == ["CLIP score", "unknown", "unknown"]
    assert models["pretraining"].tolist() == ["laion2b", "unknown", "the dataset's captions"]
    assert models["pairs_seen"]["laion"] == 34e9
    assert math.isnan(models["pairs_seen"]["unknown"])
