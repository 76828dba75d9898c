"""Projections in front of any experiment, through the folder of precomputed vectors."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from src import stimuli
from src.errors import InputError, NotApplicable
from src.jobs import encoder_job
from src.stimuli import load
from src.studies.protocol import study_of
from src.tracking import Tracker
from tests.conftest import AUDITS, PROJECTIONS, precomputed, prompted
from tests.studies.propagation.test_experiment import PROTOCOL, overrides

FEW = [*(f"protocol.{name}={value}" for name, value in PROTOCOL.items()), "protocol.placebo=19"]
FEW += ["protocol.bootstrap=20", "protocol.partitions=50", "protocol.faces_per_group=20"]


@pytest.fixture(scope="module", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("vectors") / "lab"
    return prompted(precomputed(place, seed=request.param, q=request.param, width=24))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return prompted(precomputed(tmp_path_factory.mktemp("vectors") / "lab", q=3, width=24))


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return Tracker(f"sqlite:///{tmp_path_factory.mktemp('tracking')}/mlflow.db")


def perform(made, tracker):
    run = tracker.open("precomputed", made.label)
    with tracker.recorded(run):
        return encoder_job.perform(encoder_job.prepare(made), run)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def said(folder, sentences):
    frame = pd.read_parquet(folder / "prompts.parquet")
    vectors = load_file(folder / "prompts.safetensors")["embedding"].astype(float)
    place = {sentence: row for row, sentence in enumerate(frame["sentence"])}
    return unit(vectors[[place[sentence] for sentence in sentences]])


def seen(folder, role):
    frame = pd.read_parquet(folder / f"{role}.parquet")
    order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
    return unit(load_file(folder / f"{role}.safetensors")["embedding"][order].astype(float))


@pytest.mark.parametrize("side", ["texts", "images", "both"])
@pytest.mark.parametrize("exp", ["faces_to_words", "labels_to_scenes", "cles_warmth"])
def test_an_experiment_sees_what_the_projection_leaves(folder, job, tracker, exp, side):
    """The same experiment on vectors that numpy projected."""
    made = job(*overrides(folder, exp), *FEW, "debias=orth_proj", f"debias.side={side}")
    found = perform(made, tracker)
    assert {*found["debias"]} == {"orth_proj" + ("" if side == "texts" else f"+{side}")}
    names = ["male", "man", "female", "woman", "alpha person", "beta person"]
    spurious = said(folder, [f"A photo of a {name}." for name in names]).T
    kept = np.eye(24) - spurious @ np.linalg.pinv(spurious)
    tables = {role: load(made.cfg, role) for role in study_of(made.cfg.exp).roles(made.cfg.exp)}
    vectors = {role: seen(folder, role) for role in tables}
    own = study_of(made.cfg.exp).prompts(made.cfg)
    if own:
        tables["prompts"], vectors["prompts"] = own, said(folder, own.frame["sentence"])
    for role in vectors:
        if (side in ("images", "both")) if role in ("faces", "scenes") else (side in ("texts", "both")):
            vectors[role] = unit(vectors[role] @ kept.T)
    asked = {role: torch.from_numpy(one) for role, one in vectors.items()}
    expected = study_of(made.cfg.exp).run(made.cfg, tables, asked).analyses
    for column in {"rho", "p_placebo", "cles", "delta_gap", "cohens_d", "p_null"} & {*expected}:
        assert found[column].to_numpy(float) == pytest.approx(
            expected[column].to_numpy(float), abs=1e-9, nan_ok=True
        ), column


@pytest.mark.parametrize("method", ["none", "orth_proj_scm"])
@pytest.mark.parametrize("exp", [*AUDITS, "scenes_zero_shot", "scenes_to_words"])
def test_every_audit_runs_on_precomputed_vectors(lab, job, tracker, exp, method):
    found = perform(job(*overrides(lab, exp), *FEW, f"debias={method}"), tracker)
    assert {*found["debias"]} == {method}
    if exp in AUDITS:
        pairs = {("Alpha Men", "Alpha Women"), ("Alpha Men", "Beta Men"), ("Alpha Women", "Beta Men")}
        assert {*zip(found["group_a"], found["group_b"], strict=True)} == pairs
        assert {*found["n_a"], *found["n_b"]} == {20}
        assert found["p_null"].between(1 / 51, 1).all()


def test_a_projection_is_another_job(lab, job):
    keys = {
        method: encoder_job.key(
            encoder_job.prepare(job(*overrides(lab, "faces_to_words"), *FEW, f"debias={method}"))
        )
        for method in ("none", *PROJECTIONS)
    }
    assert len({*keys.values()}) == 4


def test_what_was_left_out_or_changed_of_the_inputs_is_in_the_run_s_notes(job, tracker, tmp_path):
    place = precomputed(tmp_path / "lab", width=24)
    vectors = load_file(place / "words.safetensors")["embedding"]
    save_file({"embedding": vectors * np.float32(1.004)}, place / "words.safetensors")
    prepared = encoder_job.prepare(job(*overrides(place, "faces_to_words"), *FEW))
    faces = replace(prepared.tables["faces"], notes=("2 pictures occur a second time",))
    run = tracker.open("precomputed", "noted")
    with tracker.recorded(run):
        encoder_job.perform(replace(prepared, tables={**prepared.tables, "faces": faces}), run)
    notes = tracker.client.get_run(run.id).data.tags["notes"]
    assert notes.startswith(
        "faces: 2 pictures occur a second time; 90 of 90 words had vectors with norms from"
    )


def test_without_labels_faces_say_which_groups_are_meant(lab, job, tmp_path):
    place = prompted(precomputed(tmp_path / "lab", width=24))
    made = job(*overrides(place, "scenes_to_words"), *FEW, "debias=orth_proj")
    with_labels = encoder_job.prepare(made).removed.spurious
    for role in ("labels", "faces"):
        assert encoder_job.prepare(made).removed.spurious == with_labels
        (place / f"{role}.parquet").unlink()
        stimuli._tables.clear()  # a process reads a table once
    with pytest.raises(InputError, match="neither labels nor faces are there"):
        encoder_job.prepare(made)


def lacking(lab, tmp_path, exp="cles_warmth", method="none"):
    """A copy of the folder without a prompt."""
    place = prompted(precomputed(tmp_path / "lab", width=24))
    frame = pd.read_parquet(place / "prompts.parquet")
    vectors = load_file(place / "prompts.safetensors")["embedding"]
    left = ~frame["sentence"].str.contains("likeable looking face|A photo of a man[.]")
    frame[left].to_parquet(place / "prompts.parquet")
    save_file({"embedding": vectors[left.to_numpy()]}, place / "prompts.safetensors")
    return [*overrides(place, exp), *FEW, f"debias={method}"]


def test_missing_prompts_are_said_before_work(lab, job, tmp_path):
    with pytest.raises(NotApplicable, match="1 of the 3 prompts .*: 'A photo of a likeable looking face'"):
        encoder_job.prepare(job(*lacking(lab, tmp_path)))


def test_missing_prompts_of_a_projection_are_no_matter_of_the_experiment(lab, job, tmp_path):
    with pytest.raises(InputError, match="debias=orth_proj: .* 'A photo of a man.'") as error:
        encoder_job.prepare(job(*lacking(lab, tmp_path, "faces_to_words", "orth_proj")))
    assert not isinstance(error.value, NotApplicable)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="sentence"), "no column sentence"),
        (lambda frame: frame.assign(sentence="A photo of a man."), "sentences stand more than once"),
        (lambda frame: frame.assign(sentence=None), "sentences stand more than once"),
    ],
)
def test_a_table_of_prompts_that_cannot_be_looked_up_is_refused(job, tmp_path, change, message):
    place = prompted(precomputed(tmp_path / "lab", width=24))
    change(pd.read_parquet(place / "prompts.parquet")).to_parquet(place / "prompts.parquet")
    with pytest.raises(InputError, match=message):
        encoder_job.prepare(job(*overrides(place, "cles_warmth")))


def test_without_a_table_of_prompts_no_audit_can_be_made(job, tmp_path):
    place = precomputed(tmp_path / "lab")
    with pytest.raises(NotApplicable, match=r"prompts.parquet: no such file"):
        encoder_job.prepare(job(*overrides(place, "cles_warmth")))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("exp.groups=['Alpha Man','Beta Men']", "Alpha Man"),
        ("exp.sets.warmth=[]", "warmth"),
        ("exp.template='A photo'", "A photo"),
    ],
)
def test_mistakes_of_an_audit_are_said_before_embedding(lab, job, override, message):
    with pytest.raises(InputError, match=message):
        encoder_job.prepare(job(*overrides(lab, "cles_warmth"), override))


def test_an_iat_with_an_empty_side_is_refused(lab, job):
    with pytest.raises(InputError, match="warm"):
        encoder_job.prepare(job(*overrides(lab, "iat_semantic"), "exp.pairs=[[warm,'']]"))


def test_a_group_of_one_face_is_refused(job, tmp_path):
    place = prompted(precomputed(tmp_path / "lab"))
    frame = pd.read_parquet(place / "faces.parquet")
    vectors = load_file(place / "faces.safetensors")["embedding"]
    left = (frame["group"] != "Beta Men") | (frame["id"] == "Beta Men3")
    frame[left].to_parquet(place / "faces.parquet")
    save_file({"embedding": vectors[left.to_numpy()]}, place / "faces.safetensors")
    with pytest.raises(InputError, match="Beta Men"):
        encoder_job.prepare(job(*overrides(place, "cles_warmth")))


def test_vectors_narrower_than_the_prompts_are_refused(job, tracker, tmp_path):
    place = prompted(precomputed(tmp_path / "lab", width=5))
    with pytest.raises(InputError, match="5"):
        perform(job(*overrides(place, "faces_to_words"), *FEW, "debias=orth_proj"), tracker)
