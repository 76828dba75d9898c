"""Run jobs on precomputed vectors: projections before any experiment, and So-B-IT with a user's word list."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from src import stage, stimuli
from src.errors import InputError, NotApplicable
from src.jobs import encoder_job
from src.stimuli import load
from src.studies.protocol import study_of
from tests.conftest import AUDITS, precomputed, prompted
from tests.studies.propagation.test_uncertainty import PROTOCOL, overrides

FEW = [*(f"protocol.{name}={value}" for name, value in PROTOCOL.items()), "protocol.placebo=19"]
FEW += ["protocol.bootstrap=20", "protocol.partitions=50", "protocol.faces_per_group=20"]
FEW += ["protocol.attribute_draws=2", "protocol.property_draws=2"]


@pytest.fixture(scope="module", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("vectors") / "lab"
    return prompted(precomputed(place, seed=request.param, q=request.param, width=24))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return prompted(precomputed(tmp_path_factory.mktemp("vectors") / "lab", q=3, width=24))


def perform(made, tracker):
    run = tracker.open("precomputed", made.label)
    with tracker.recorded(run):
        return encoder_job.perform(encoder_job.prepare(made), run)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def sentence_vectors(folder, sentences):
    frame = pd.read_parquet(folder / "prompts.parquet")
    vectors = load_file(folder / "prompts.safetensors")["embedding"].astype(float)
    place = {sentence: row for row, sentence in enumerate(frame["sentence"])}
    return unit(vectors[[place[sentence] for sentence in sentences]])


def role_vectors(folder, role):
    frame = pd.read_parquet(folder / f"{role}.parquet")
    order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
    return unit(load_file(folder / f"{role}.safetensors")["embedding"][order].astype(float))


@pytest.mark.parametrize(
    ("exp", "side"), [("faces_to_words", "texts"), ("labels_to_scenes", "images"), ("cles_warmth", "both")]
)
def test_an_experiment_sees_what_the_projection_leaves(folder, job, tracker, exp, side):
    """The same experiment on vectors that numpy projected."""
    made = job(*overrides(folder, exp), *FEW, "debias=orth_proj", f"debias.side={side}")
    result = perform(made, tracker)
    assert {*result["debias"]} == {"orth_proj" + ("" if side == "texts" else f"+{side}")}
    names = ["male", "man", "female", "woman", "alpha person", "beta person"]
    spurious = sentence_vectors(folder, [f"A photo of a {name}." for name in names]).T
    projection = np.eye(24) - spurious @ np.linalg.pinv(spurious)
    tables = {role: load(made.cfg, role) for role in study_of(made.cfg.exp).roles(made.cfg.exp)}
    vectors = {role: role_vectors(folder, role) for role in tables}
    rows = study_of(made.cfg.exp).prompts(made.cfg)
    if rows:
        tables["prompts"], vectors["prompts"] = rows, sentence_vectors(folder, rows.frame["sentence"])
    for role in vectors:
        if (side in ("images", "both")) if role in ("faces", "scenes") else (side in ("texts", "both")):
            vectors[role] = unit(vectors[role] @ projection.T)
    requested = {role: torch.from_numpy(item) for role, item in vectors.items()}
    expected = study_of(made.cfg.exp).run(made.cfg, tables, requested).analyses
    for column in {"rho", "p_placebo", "cles", "delta_gap", "cohens_d", "p_null"} & {*expected}:
        assert result[column].to_numpy(float) == pytest.approx(
            expected[column].to_numpy(float), abs=1e-9, nan_ok=True
        ), column


@pytest.mark.parametrize("exp", [*AUDITS, "scenes_zero_shot", "scenes_to_words"])
def test_every_audit_runs_on_precomputed_vectors(lab, job, tracker, exp):
    result = perform(job(*overrides(lab, exp), *FEW, "debias=orth_proj_scm"), tracker)
    assert {*result["debias"]} == {"orth_proj_scm"}
    if exp in AUDITS:
        pairs = {("Alpha Men", "Alpha Women"), ("Alpha Men", "Beta Men"), ("Alpha Women", "Beta Men")}
        assert {*zip(result["group_a"], result["group_b"], strict=True)} == pairs
        assert {*result["n_a"], *result["n_b"]} == {20}
        assert result["p_null"].between(1 / 51, 1).all()


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
    with_labels = encoder_job.prepare(made).debias_prompts.spurious
    for role in ("labels", "faces"):
        assert encoder_job.prepare(made).debias_prompts.spurious == with_labels
        (place / f"{role}.parquet").unlink()
        stimuli._tables.clear()  # a process reads a table once
    with pytest.raises(InputError, match="neither labels nor faces define the groups"):
        encoder_job.prepare(made)


def test_missing_prompts_are_refused_before_work(job, tmp_path):
    place = prompted(precomputed(tmp_path / "lab", width=24))
    frame = pd.read_parquet(place / "prompts.parquet")
    vectors = load_file(place / "prompts.safetensors")["embedding"]
    present = ~frame["sentence"].str.contains("likeable looking face|A photo of a man[.]")
    frame[present].to_parquet(place / "prompts.parquet")
    save_file({"embedding": vectors[present.to_numpy()]}, place / "prompts.safetensors")
    with pytest.raises(NotApplicable, match="1 of the 3 prompts .*: 'A photo of a likeable looking face'"):
        encoder_job.prepare(job(*overrides(place, "cles_warmth"), *FEW))
    # Those of a projection are an error: they are not inputs of the experiment.
    with pytest.raises(InputError, match="debias=orth_proj: .* 'A photo of a man.'") as error:
        encoder_job.prepare(job(*overrides(place, "faces_to_words"), *FEW, "debias=orth_proj"))
    assert not isinstance(error.value, NotApplicable)
    (place / "prompts.parquet").unlink()
    with pytest.raises(NotApplicable, match=r"prompts.parquet: no such file"):
        encoder_job.prepare(job(*overrides(place, "cles_warmth")))


# So-B-IT.

SOBIT = ["protocol.permutations=49", "protocol.bootstrap=20", "protocol.vocabulary=30", "protocol.top_k=9"]
LIST = {"tempers": {"adjective": ["calm", "odd"]}, "trades": {"noun": ["hero"], "activity": ["reading"]}}


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    path = tmp_path_factory.mktemp("lists") / "short.json"
    path.write_text(json.dumps(LIST))
    return path


@pytest.fixture(scope="module")
def captioned(tmp_path_factory, listed):
    """Folder of vectors: faces with race and gender, and every prompt of sobit_association."""
    place = precomputed(tmp_path_factory.mktemp("vectors") / "lab", width=24)
    frame = pd.read_parquet(place / "faces.parquet")
    frame[["race", "gender"]] = frame["group"].str.split(" ", expand=True)
    frame.to_parquet(place / "faces.parquet")
    chosen = sobit(place, "association", listed)
    assert stage.main(["prompts", "--output", str(place / "prompts.parquet"), *chosen]) == 0
    vectors = np.random.default_rng(3).normal(size=(len(pd.read_parquet(place / "prompts.parquet")), 24))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    save_file({"embedding": vectors.astype(np.float32)}, place / "prompts.safetensors")
    return place


def sobit(place, measure, listed):
    return [*overrides(place, f"sobit_{measure}"), f"taxonomy.path={listed}", *SOBIT]


@pytest.mark.parametrize("measure", ["association", "retrieval", "strength"])
def test_it_runs_on_precomputed_vectors_and_a_user_s_list(captioned, listed, job, tracker, measure):
    made = job(*sobit(captioned, measure, listed))
    result = perform(made, tracker)
    assert {*result["taxonomy"]} == {"short"}
    assert list(dict.fromkeys(result["word"])) == ["calm", "odd", "hero", "reading"]
    assert len(result) == 4 * (1 if measure == "strength" else 2 + 2 + 3)
    value = {"association": "association", "retrieval": "ratio", "strength": "strength"}[measure]
    assert result[value].notna().all()
    assert len(tracker.finished("precomputed", encoder_job.key(encoder_job.prepare(made)))) == 1


@pytest.mark.thorough
def test_another_list_is_another_job(captioned, listed, job, tmp_path):
    def config(path):
        return job(*sobit(captioned, "association", path)).config_hash

    copy = tmp_path / "short.json"
    copy.write_text(listed.read_text())
    assert config(copy) == config(listed)
    copy.write_text(json.dumps({**LIST, "more": {"noun": ["smith"]}}))
    assert config(copy) != config(listed)


def test_a_missing_prompt_is_named_and_many_are_counted(captioned, listed, job, tmp_path):
    place = precomputed(tmp_path / "lab", width=24)
    for name in ("faces.parquet", "faces.safetensors"):
        (place / name).write_bytes((captioned / name).read_bytes())
    frame = pd.DataFrame({"id": ["x"], "sentence": ["a photo of a hero"]})
    frame.to_parquet(place / "prompts.parquet")
    save_file({"embedding": np.eye(1, 24, dtype=np.float32)}, place / "prompts.safetensors")
    message = "3 of the 4 prompts.*'a photo of a calm person'.*'a photo of an odd"
    with pytest.raises(NotApplicable, match=message):
        encoder_job.prepare(job(*sobit(place, "retrieval", listed)))
    with pytest.raises(NotApplicable, match=r"and \d+ more. To list them all: python -m src.stage"):
        encoder_job.prepare(job(*sobit(place, "association", listed), "protocol.vocabulary=300"))


def test_specifications_without_effect_are_not_applicable(captioned, listed, job):
    for measure, protocol in (("retrieval", "baseline_bare"), ("association", "k_100")):
        with pytest.raises(NotApplicable, match="has no effect"):
            encoder_job.prepare(job(*sobit(captioned, measure, listed), f"protocol={protocol}"))
    bare = job(*sobit(captioned, "association", listed), "protocol=baseline_bare")
    assert "the" in set(study_of(bare.cfg.exp).prompts(bare.cfg).frame["sentence"])
    literal = job(*sobit(captioned, "retrieval", listed), "protocol=article_literal")
    sentences = set(study_of(literal.cfg.exp).prompts(literal.cfg).frame["sentence"])
    assert "a photo of a/an odd person" in sentences
