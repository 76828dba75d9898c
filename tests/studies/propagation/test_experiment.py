"""All eight experiments against naive loops, through the folder of precomputed vectors."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from src.embeddings import embeddings
from src.jobs import encoder_job
from src.stimuli import checked, load
from src.studies.propagation import experiment, similarity_blocks
from src.tracking import Tracker
from tests import reference
from tests.conftest import precomputed

PROTOCOL = {"k": 11, "extremes": 6, "set_size": 15, "ddof": 1}


def loaded(folder):
    tables, vectors = {}, {}
    for role in ("faces", "scenes", "words", "labels"):
        frame = pd.read_parquet(folder / f"{role}.parquet")
        order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
        tables[role] = reference.rows_of(frame)
        vectors[role] = load_file(folder / f"{role}.safetensors")["embedding"][order].astype(float).tolist()
    return tables, vectors


def overrides(folder, exp, **protocol):
    return [
        "model=precomputed",
        f"model.path={folder}",
        f"exp={exp}",
        *(f"protocol.{name}={value}" for name, value in protocol.items()),
    ]


@pytest.fixture(scope="module", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=request.param, q=request.param)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return Tracker(f"sqlite:///{tmp_path_factory.mktemp('tracking')}/mlflow.db")


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
def test_an_experiment_is_the_naive_loop(exp, folder, job, tracker):
    made = job(*overrides(folder, exp, **PROTOCOL), "seed=5")
    run = tracker.open("precomputed", exp)
    with tracker.recorded(run):
        encoder_job.perform(encoder_job.prepare(made), run)
    analyses, scores = reference.propagate(exp, *loaded(folder), **PROTOCOL, seed=5)

    found = pd.read_csv(made.output / "results" / "analyses.csv")
    assert found["exp"].unique() == [exp]
    assert found["paper"].unique() == [reference.EXPERIMENTS[exp]]
    assert found["model"].unique() == ["lab"]
    assert found["dataset"].unique() == ["precomputed"]
    expected = pd.DataFrame(analyses)
    assert found["stratum"].tolist() == expected["stratum"].tolist()
    assert found["group"].fillna("").tolist() == expected["group"].fillna("").tolist()
    assert found["n"].tolist() == expected["n"].tolist()
    for column in ("rho", "p", "rho_all", "n_all"):
        assert found[column].to_numpy(dtype=float) == pytest.approx(
            expected[column].to_numpy(dtype=float), abs=1e-12, nan_ok=True
        ), column

    targets = pd.read_parquet(made.output / "results" / "targets.parquet")
    assert not targets.duplicated(["id", "stratum"]).any()
    given = {(row.stratum, row.id): (row.intrinsic, row.extrinsic) for row in targets.itertuples()}
    assert set(given) == set(scores)
    for key, pair in scores.items():
        assert given[key] == pytest.approx(pair, abs=1e-10), key


@pytest.mark.parametrize("exp", ["faces_to_words", "labels_to_faces"])
def test_the_block_size_changes_nothing(exp, folder, job, monkeypatch):
    cfg = job(*overrides(folder, exp, **PROTOCOL)).cfg
    targets, corpus = (load(cfg, role) for role in (cfg.exp.targets, cfg.exp.corpus))
    vectors = [
        embeddings(cfg, table.role, lambda role: load(cfg, role)).vectors for table in (targets, corpus)
    ]
    whole = experiment.run(targets, corpus, *vectors, cfg.protocol, 0)
    monkeypatch.setattr(similarity_blocks, "BLOCK", 1)
    single = experiment.run(targets, corpus, *vectors, cfg.protocol, 0)
    pd.testing.assert_frame_equal(whole.targets, single.targets, check_exact=True)
    pd.testing.assert_frame_equal(whole.analyses, single.analyses, check_exact=True)


def test_equal_vectors_are_equally_similar(job, tmp_path):
    """Ties are broken by position, and no deviation is no effect, whatever a matrix product rounds."""
    rng = np.random.default_rng(0)
    scenes = pd.DataFrame({"id": [f"s{i:04d}" for i in range(1001)], "valence": rng.uniform(size=1001)})
    words = pd.DataFrame({"word": [f"w{i:02d}" for i in range(40)], "valence": rng.uniform(size=40)})
    words = words.assign(id=words["word"], template="{}", sentence=words["word"])
    same = rng.normal(size=(1, 64))
    found = experiment.run(
        checked("words", words, "t"),
        checked("scenes", scenes, "t"),
        torch.from_numpy(rng.normal(size=(40, 64))),
        torch.from_numpy(np.repeat(same, 1001, axis=0)),
        job("protocol.k=31", "protocol.extremes=5").cfg.protocol,
        0,
    )
    assert found.targets["intrinsic"].isna().all()
    assert found.targets["extrinsic"].to_numpy() == pytest.approx(scenes["valence"][:31].mean(), abs=1e-12)
    assert found.analyses["reason"].tolist() == ["0 units: at least 3 are needed"]
    assert found.analyses["n_excluded"].tolist() == [10]


def test_a_group_without_targets_has_no_rho_and_a_reason(job, tmp_path, tracker):
    folder = precomputed(tmp_path / "lab")
    frame = pd.read_parquet(folder / "faces.parquet")
    kept = frame["group"] != "Beta Men"
    vectors = load_file(folder / "faces.safetensors")["embedding"][kept.to_numpy()]
    frame[kept].to_parquet(folder / "faces.parquet")
    save_file({"embedding": vectors}, folder / "faces.safetensors")
    made = job(*overrides(folder, "faces_to_labels", **PROTOCOL))
    run = tracker.open("precomputed", "two of three groups")
    with tracker.recorded(run):
        found = encoder_job.perform(encoder_job.prepare(made), run)
    assert found["n"].tolist() == [22, 22, 0]
    assert found["reason"].tolist() == ["", "", "0 units: at least 3 are needed"]
