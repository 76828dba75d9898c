"""The headline command, all of it but the download: published encoders on dataset=paper."""

import json

import pandas as pd
import pytest
from mlflow import MlflowClient

from tests.commands import command
from tests.conftest import places
from tests.encoders import published as made
from tests.stimuli.drawn import picture

REPOSITORIES = {
    "ViT-B-32-quickgelu": "timm/vit_base_patch32_clip_224.openai",
    "ViT-L-14-quickgelu": "timm/vit_large_patch14_clip_224.openai",
}
PINNED = {
    "clip_b32": "a6f597a30f7b82c51704746581f9a4e41421e878",
    "clip_l14": "18d0535469bb561bf468d76c1d73aa35156c922b",
    "blip2": "520bf73fd0ef6ccce791cd3f06908040aef2d8cc",
}
HEADLINE = ["-m", "dataset=paper", "model=clip_b32,clip_l14,blip2", "exp=glob(*)"]
# The pinned hashes are those of the real weights.
SMALL = [
    "model.sha256=''", "faces.per_group=20", "faces.size=32", "faces.workers=1", "protocol.k=30",
    "protocol.extremes=12", "protocol.set_size=12", "protocol.vocabulary=300",
    "trainer=cpu", "trainer.workers=0",
]  # fmt: skip


@pytest.fixture
def root(tmp_path):
    """CFD, OASIS and NRC-VAD in their published layouts, drawn."""
    raw = tmp_path / "raw"
    number = 0
    for letters in ("AF", "AM", "BF", "BM", "WF", "WM", "LF"):
        for person in range(7):
            number += 1
            name = f"{letters}-{200 + person}"
            picture(raw / "cfd" / "Images" / "CFD" / name / f"CFD-{name}-{number:03}-N.jpg", number)
    rows = [",Theme,Valence_mean"]
    for number in range(60):
        picture(raw / "oasis" / "images" / f"Scene {number}.jpg", 500 + number)
        rows.append(f"I{number},Scene {number},{1 + 6 * number / 59:.3f}")
    (raw / "oasis" / "OASIS.csv").write_text("\r".join(rows))
    (raw / "nrc_vad").mkdir()
    words = [f"{a}{b}{c}" for a in "bdfg" for b in "aeiou" for c in "klm"]
    (raw / "nrc_vad" / "NRC-VAD-Lexicon.txt").write_text(
        "".join(f"{word}\t{i / 59:.3f}\t0.5\t0.5\n" for i, word in enumerate(words))
    )
    return raw


def place_weights(hub, tmp_path):
    for (architecture, repository), model in zip(REPOSITORIES.items(), PINNED, strict=False):
        (tmp_path / model).mkdir()
        made.place(hub, repository, made.clip(architecture, tmp_path / model), PINNED[model])
    made.place(hub, "Salesforce/blip2-itm-vit-g", made.blip2(tmp_path / "blip2"), PINNED["blip2"])


@pytest.mark.thorough
def test_the_headline_runs_as_the_readme_has_it(cache, small, root, tmp_path, capsys):
    place_weights(cache, tmp_path)
    there = [f"dataset.root={root}", *SMALL, *places(tmp_path)]
    first = command(tmp_path / "first", *HEADLINE, *there)
    said = capsys.readouterr().out
    assert first.code == 0, said
    analyses = first.analyses()
    found = analyses[analyses["stratum"].notna()]
    assert len(found) == 114
    # Noise looks alike to untrained towers: some outcomes are constant, and that is said.
    assert (found["rho"].notna() | found["reason"].notna()).all()
    assert found["rho"].notna().sum() > 76
    assert found.groupby("model").size().to_dict() == {"blip2": 38, "clip_b32": 38, "clip_l14": 38}
    # 15 pairs of groups: one set of words in four audits, two sets and their mean in one.
    assert analyses["cles"].notna().groupby(analyses["model"]).sum().to_dict() == dict.fromkeys(PINNED, 105)
    assert analyses["accuracy"].notna().sum() == 3
    # Morphs keep their parents' race and gender: 395 words, three races, two genders, and both.
    words = analyses[analyses["association"].notna()].groupby("model").size().to_dict()
    assert words == dict.fromkeys(PINNED, 395 * (3 + 2 + 6))
    assert "Ghate et al." in said
    assert "0.83 ± 0.10" in said

    client = MlflowClient(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == "paper"]
    jobs = [run for run in client.search_runs([experiment]) if run.data.tags["kind"] == "job"]
    assert len(jobs) == 3 * 17
    for run in jobs:
        tags, read = run.data.tags, {item.dataset.name: item.dataset for item in run.inputs.dataset_inputs}
        assert tags["weights"] == "trained"
        assert tags["weights.revision"] == PINNED[tags["model"]]
        assert len(tags["weights.sha256"]) == 64
        assert len(read) == 4
        for name, dataset in read.items():
            assert dataset.source.startswith(dataset.digest), name
            assert len(dataset.digest) == 36
    (parent,) = [run for run in client.search_runs([experiment]) if run.data.tags["kind"] == "sweep"]
    assert [item.path for item in client.list_artifacts(parent.info.run_id, "morphs")] == [
        "morphs/contact_sheet.jpg"
    ]
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "embeddings").glob("*/*/manifest.json")]
    # Roles; prompts of five audits, two of which share theirs; a taxonomy's without and with a baseline's.
    assert len(manifests) == 3 * (4 + 4 + 2)
    assert {m["weights"]["sha256"] for m in manifests} == {run.data.tags["weights.sha256"] for run in jobs}
    shapes = {m["model"]: m["shape"] for m in manifests if m["role"] == "faces"}
    assert shapes == {"clip_b32": [120, 24], "clip_l14": [120, 32], "blip2": [120, 32, 16]}

    faces = pd.read_parquet(next((tmp_path / "morphs").glob("*/table.parquet")))
    assert set(faces["group"].value_counts()) == {20}
    for row in faces.itertuples():
        assert row.parent_a.split("-")[1] == row.parent_b.split("-")[1]

    # A second time all is taken over, without a look at any picture.
    second = command(tmp_path / "second", *HEADLINE, *there)
    assert (second.code, second.passes) == (0, 0)
    pd.testing.assert_frame_equal(second.analyses(), analyses)


def test_a_model_whose_weights_are_absent_fails_alone_and_before_any_work(
    cache, small, root, tmp_path, capsys
):
    place_weights(cache, tmp_path)
    (cache / "models--Salesforce--blip2-itm-vit-g").rename(tmp_path / "away")
    there = [f"dataset.root={root}", *SMALL, *places(tmp_path), "model=blip2,clip_b32"]
    swept = command(tmp_path / "all", "-m", "dataset=paper", "exp=glob(scenes_to_w*)", *there)
    assert swept.code == 1
    assert set(swept.analyses()["model"]) == {"clip_b32"}
    said = " ".join(capsys.readouterr().out.split())
    assert "Salesforce/blip2-itm-vit-g at 520bf73f" in said
    assert "python -m src.encoders fetch model=blip2" in said
    alone = command(
        tmp_path / "alone", "-m", "dataset=paper", "exp=glob(*)", f"dataset.root={root}", *SMALL,
        *places(tmp_path / "none"), "model=blip2",
    )  # fmt: skip
    assert alone.code == 1
    assert not (tmp_path / "none" / "embeddings").exists()
    assert not (tmp_path / "none" / "morphs").exists()


def test_random_weights_are_marked_wherever_they_appear(cache, small, root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # a narrow terminal breaks the name
    swept = command(
        tmp_path / "one", "dataset=paper", "exp=scenes_to_words", "model=clip_b32", "model.weights=random",
        f"dataset.root={root}", *SMALL, *places(tmp_path),
    )  # fmt: skip
    assert swept.code == 0
    assert set(pd.read_csv(tmp_path / "one" / "results" / "analyses.csv")["model"]) == {"clip_b32+random"}
    assert "clip_b32+random" in capsys.readouterr().out
    client = MlflowClient(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (run,) = [run for e in client.search_experiments() for run in client.search_runs([e.experiment_id])]
    assert "clip_b32+random" in run.info.run_name
    assert (run.data.tags["weights"], run.data.tags["model"]) == ("random", "clip_b32+random")
