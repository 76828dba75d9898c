"""Run the headline command without downloads: small untrained encoders in the place of the published ones."""

import json
from fnmatch import fnmatch

import pandas as pd
import pytest
from mlflow import MlflowClient

from tests.commands import FEW_DRAWS, command
from tests.conftest import store_overrides
from tests.encoders.small_checkpoints import blip2_files, open_clip_files, write_to_cache
from tests.launched import runs_below
from tests.stimuli import drawn

# Models of open_clip -> architecture, and repository of its weights.
OPEN_CLIP = {
    "clip_b32": ("ViT-B-32-quickgelu", "timm/vit_base_patch32_clip_224.openai"),
    "clip_l14": ("ViT-L-14-quickgelu", "timm/vit_large_patch14_clip_224.openai"),
}
# Models -> revision of their weights.
PINNED = {
    "clip_b32": "a6f597a30f7b82c51704746581f9a4e41421e878",
    "clip_l14": "18d0535469bb561bf468d76c1d73aa35156c922b",
    "blip2": "520bf73fd0ef6ccce791cd3f06908040aef2d8cc",
}
HEADLINE = ["-m", "dataset=paper", "model=clip_b32,clip_l14,blip2", "exp=glob(*)"]
# No sha256 is checked: the pinned hashes are those of the real weights.
SMALL = [
    "model.sha256=''", "faces.per_group=20", "faces.size=32", "faces.workers=1", "protocol.k=30",
    "protocol.extremes=12", "protocol.set_size=12", "protocol.vocabulary=300",
    "trainer=cpu", "trainer.workers=0", *FEW_DRAWS, "protocol.partitions=20", "protocol.permutations=20",
]  # fmt: skip


@pytest.fixture
def root(tmp_path):
    """Draw CFD, OASIS and NRC-VAD in their published layouts."""
    raw = tmp_path / "raw"
    drawn.cfd(raw / "cfd", 7)
    drawn.oasis(raw / "oasis", 60)
    drawn.nrc_vad(raw / "nrc_vad", 60)
    return raw


def place_weights(hub, tmp_path):
    """Write small encoders with random weights into the hub's cache, under the pinned revisions."""
    for model, (architecture, repository) in OPEN_CLIP.items():
        (tmp_path / model).mkdir()
        write_to_cache(hub, repository, open_clip_files(architecture, tmp_path / model), PINNED[model])
    write_to_cache(hub, "Salesforce/blip2-itm-vit-g", blip2_files(tmp_path / "blip2"), PINNED["blip2"])


@pytest.mark.thorough
@pytest.mark.timeout(1200)  # 120 jobs
@pytest.mark.parametrize("again", ["faces_to_*", pytest.param("*", marks=pytest.mark.exhaustive)])
def test_the_headline_runs_as_the_readme_has_it(cache, small, root, tmp_path, capsys, monkeypatch, again):
    monkeypatch.setenv("COLUMNS", "140")  # all of a row of the table on one line
    place_weights(cache, tmp_path)
    overrides = [f"dataset.root={root}", *SMALL, *store_overrides(tmp_path)]
    first = command(tmp_path / "first", *HEADLINE, *overrides)
    printed = capsys.readouterr().out
    assert first.code == 0, printed
    analyses = first.analyses()
    propagation = analyses[analyses["stratum"].notna()]
    assert len(propagation) == 114
    # Untrained towers tell few images of noise apart: some scores are constant, and a reason replaces rho.
    assert (propagation["rho"].notna() | propagation["reason"].notna()).all()
    assert propagation["rho"].notna().sum() > 76
    assert propagation.groupby("model").size().to_dict() == {"blip2": 38, "clip_b32": 38, "clip_l14": 38}
    # 15 pairs of groups: one set of words in four audits, two sets and their mean in one.
    assert analyses["cles"].notna().groupby(analyses["model"]).sum().to_dict() == dict.fromkeys(PINNED, 105)
    assert analyses["accuracy"].notna().sum() == 3
    # Morphs keep their parents' race and gender: 395 words, three races, two genders, six pairs of both.
    words = analyses[analyses["association"].notna()].groupby("model").size().to_dict()
    assert words == dict.fromkeys(PINNED, 395 * (3 + 2 + 6))
    assert "Ghate et al." in printed
    assert "0.83 ± 0.10" in printed

    client = MlflowClient(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (parent,), jobs = runs_below(tmp_path, "paper")
    assert len(jobs) == 3 * 20
    for run in jobs:
        tags, datasets = run.data.tags, [item.dataset for item in run.inputs.dataset_inputs]
        # Weights from a repository count as trained, even these.
        assert (tags["weights"], tags["weights.revision"]) == ("trained", PINNED[tags["model"]])
        # Stimuli and vectors: of two roles, or of all four in association tests.
        assert [len(dataset.digest) for dataset in datasets] == [36] * (8 if tags["exp"] == "eat" else 4)
        assert all(dataset.source.startswith(dataset.digest) for dataset in datasets)
    (sheet,) = client.list_artifacts(parent.info.run_id, "morphs")
    assert sheet.path == "morphs/contact_sheet.jpg"
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "embeddings").glob("*/*/manifest.json")]
    # Per model: four roles; four lists of prompts of five audits (two share one); a taxonomy's captions
    # without and with those of its baseline; classes without and with a child.
    assert len(manifests) == 3 * (4 + 4 + 2 + 2)
    assert {m["weights"]["sha256"] for m in manifests} == {run.data.tags["weights.sha256"] for run in jobs}
    shapes = {m["model"]: m["shape"] for m in manifests if m["role"] == "faces"}
    assert shapes == {"clip_b32": [120, 24], "clip_l14": [120, 32], "blip2": [120, 32, 16]}

    # A second sweep reuses all results and embeds no picture.
    second = command(tmp_path / "second", *HEADLINE[:-1], f"exp=glob({again})", *overrides)
    assert (second.code, second.passes) == (0, 0)
    first_files, second_files = (
        sorted(path.read_bytes() for path in swept.output.glob("*/results/analyses.csv"))
        for swept in (first, second)
    )
    exps = [exp for exp in analyses.groupby("model")["exp"].unique().explode() if fnmatch(exp, again)]
    assert len(second_files) == len(exps)
    assert {*second_files} <= {*first_files}


@pytest.mark.thorough
def test_a_model_without_weights_fails_alone_and_before_any_work(cache, small, root, tmp_path, capsys):
    place_weights(cache, tmp_path)
    (cache / "models--Salesforce--blip2-itm-vit-g").rename(tmp_path / "removed")
    overrides = [f"dataset.root={root}", *SMALL, *store_overrides(tmp_path), "model=blip2,clip_b32"]
    swept = command(tmp_path / "all", "-m", "dataset=paper", "exp=glob(scenes_to_w*)", *overrides)
    assert swept.code == 1
    assert set(swept.analyses()["model"]) == {"clip_b32"}
    printed = " ".join(capsys.readouterr().out.split())
    assert "Salesforce/blip2-itm-vit-g at 520bf73f" in printed
    assert "python -m src.encoders fetch model=blip2" in printed
    overrides = [f"dataset.root={root}", *SMALL, *store_overrides(tmp_path / "none"), "model=blip2"]
    assert command(tmp_path / "alone", "-m", "dataset=paper", "exp=glob(*)", *overrides).code == 1
    assert not (tmp_path / "none" / "embeddings").exists()
    assert not (tmp_path / "none" / "morphs").exists()


def test_random_weights_are_marked_wherever_they_appear(cache, small, root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # a narrower terminal would break the name
    chosen = ["dataset=paper", "exp=scenes_to_words", "model=clip_b32", "model.weights=random"]
    overrides = [f"dataset.root={root}", *SMALL, *store_overrides(tmp_path)]
    assert command(tmp_path / "one", *chosen, *overrides).code == 0
    assert set(pd.read_csv(tmp_path / "one" / "results" / "analyses.csv")["model"]) == {"clip_b32+random"}
    assert "clip_b32+random" in capsys.readouterr().out
    _, (run,) = runs_below(tmp_path, "paper")
    assert "clip_b32+random" in run.info.run_name
    assert (run.data.tags["weights"], run.data.tags["model"]) == ("random", "clip_b32+random")
