"""Run jobs on precomputed vectors: projections before every experiment, and So-B-IT with a user's words."""

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
from src.studies.protocol import load_study
from tests.conftest import AUDITS, precomputed, prompted
from tests.studies.propagation.test_uncertainty import PROTOCOL, load_folder, overrides

FEW_DRAWS = [*(f"protocol.{name}={value}" for name, value in PROTOCOL.items()), "protocol.placebo=19"]
FEW_DRAWS += ["protocol.bootstrap=20", "protocol.partitions=50", "protocol.faces_per_group=20"]
FEW_DRAWS += ["protocol.attribute_draws=2", "protocol.property_draws=2"]


@pytest.fixture(scope="module", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "lab"
    return prompted(precomputed(path, seed=request.param, q=request.param, width=24))


@pytest.fixture(scope="module")
def vectors_folder(tmp_path_factory):
    return prompted(precomputed(tmp_path_factory.mktemp("vectors") / "lab", q=3, width=24))


def perform(job, tracker):
    run = tracker.start_run("precomputed", job.label)
    with tracker.end_on_exit(run):
        return encoder_job.perform(encoder_job.prepare(job), run)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def sentence_vectors(folder, sentences):
    frame = pd.read_parquet(folder / "prompts.parquet")
    vectors = load_file(folder / "prompts.safetensors")["embedding"].astype(float)
    row_of = {sentence: row for row, sentence in enumerate(frame["sentence"])}
    return unit(vectors[[row_of[sentence] for sentence in sentences]])


@pytest.mark.parametrize(
    ("exp", "side"), [("faces_to_words", "texts"), ("labels_to_scenes", "images"), ("cles_warmth", "both")]
)
def test_an_experiment_uses_projected_vectors(folder, job, tracker, exp, side):
    """Run the same experiment on vectors projected with numpy."""
    debiased_job = job(*overrides(folder, exp), *FEW_DRAWS, "debias=orth_proj", f"debias.side={side}")
    result, study, cfg = perform(debiased_job, tracker), load_study(debiased_job.cfg.exp), debiased_job.cfg
    assert {*result["debias"]} == {"orth_proj" + ("" if side == "texts" else f"+{side}")}
    names = ["male", "man", "female", "woman", "alpha person", "beta person"]
    spurious = sentence_vectors(folder, [f"A photo of a {name}." for name in names]).T
    projection = np.eye(24) - spurious @ np.linalg.pinv(spurious)
    tables = {role: load(cfg, role) for role in study.roles(cfg.exp)}
    vectors = {role: unit(np.array(rows)) for role, rows in load_folder(folder)[1].items() if role in tables}
    prompts = study.prompts(cfg)
    if prompts:
        tables["prompts"], vectors["prompts"] = prompts, sentence_vectors(folder, prompts.frame["sentence"])
    for role in vectors:
        if (side in ("images", "both")) if role in ("faces", "scenes") else (side in ("texts", "both")):
            vectors[role] = unit(vectors[role] @ projection.T)
    tensors = {role: torch.from_numpy(array) for role, array in vectors.items()}
    expected = study.run(cfg, tables, tensors).analyses
    for column in {"rho", "p_placebo", "cles", "delta_gap", "cohens_d", "p_null"} & {*expected}:
        assert result[column].to_numpy(float) == pytest.approx(
            expected[column].to_numpy(float), abs=1e-9, nan_ok=True
        ), column


@pytest.mark.parametrize("exp", [*AUDITS, "scenes_zero_shot", "scenes_to_words"])
def test_every_audit_runs_on_precomputed_vectors(vectors_folder, job, tracker, exp):
    result = perform(job(*overrides(vectors_folder, exp), *FEW_DRAWS, "debias=orth_proj_scm"), tracker)
    assert {*result["debias"]} == {"orth_proj_scm"}
    if exp in AUDITS:
        pairs = {("Alpha Men", "Alpha Women"), ("Alpha Men", "Beta Men"), ("Alpha Women", "Beta Men")}
        assert {*zip(result["group_a"], result["group_b"], strict=True)} == pairs
        assert {*result["n_a"], *result["n_b"]} == {20}
        assert result["p_null"].between(1 / 51, 1).all()


def test_run_notes_report_omitted_and_rescaled_inputs(job, tracker, tmp_path):
    folder = precomputed(tmp_path / "lab", width=24)
    vectors = load_file(folder / "words.safetensors")["embedding"]
    save_file({"embedding": vectors * np.float32(1.004)}, folder / "words.safetensors")
    prepared = encoder_job.prepare(job(*overrides(folder, "faces_to_words"), *FEW_DRAWS))
    faces = replace(prepared.tables["faces"], notes=("2 pictures occur a second time",))
    run = tracker.start_run("precomputed", "noted")
    with tracker.end_on_exit(run):
        encoder_job.perform(replace(prepared, tables={**prepared.tables, "faces": faces}), run)
    notes = tracker.client.get_run(run.id).data.tags["notes"]
    assert notes.startswith(
        "faces: 2 pictures occur a second time; 90 of 90 words had vectors with norms from"
    )


def test_without_labels_the_faces_define_the_groups(vectors_folder, job, tmp_path):
    folder = prompted(precomputed(tmp_path / "lab", width=24))
    debiased_job = job(*overrides(folder, "scenes_to_words"), *FEW_DRAWS, "debias=orth_proj")
    with_labels = encoder_job.prepare(debiased_job).debias_prompts.spurious
    for role in ("labels", "faces"):
        assert encoder_job.prepare(debiased_job).debias_prompts.spurious == with_labels
        (folder / f"{role}.parquet").unlink()
        stimuli._tables.clear()  # tables are cached per process
    with pytest.raises(InputError, match="neither labels nor faces define the groups"):
        encoder_job.prepare(debiased_job)


def test_missing_prompts_are_refused_before_encoding(job, tmp_path):
    folder = prompted(precomputed(tmp_path / "lab", width=24))
    frame = pd.read_parquet(folder / "prompts.parquet")
    vectors = load_file(folder / "prompts.safetensors")["embedding"]
    present = ~frame["sentence"].str.contains("likeable looking face|A photo of a man[.]")
    frame[present].to_parquet(folder / "prompts.parquet")
    save_file({"embedding": vectors[present.to_numpy()]}, folder / "prompts.safetensors")
    with pytest.raises(NotApplicable, match="1 of the 3 prompts .*: 'A photo of a likeable looking face'"):
        encoder_job.prepare(job(*overrides(folder, "cles_warmth"), *FEW_DRAWS))
    # Missing prompts of a projection are an error: they are not inputs of the experiment.
    with pytest.raises(InputError, match="debias=orth_proj: .* 'A photo of a man.'") as error:
        encoder_job.prepare(job(*overrides(folder, "faces_to_words"), *FEW_DRAWS, "debias=orth_proj"))
    assert not isinstance(error.value, NotApplicable)
    (folder / "prompts.parquet").unlink()
    with pytest.raises(NotApplicable, match=r"prompts.parquet: no such file"):
        encoder_job.prepare(job(*overrides(folder, "cles_warmth")))


# So-B-IT with a user's word list.

SOBIT_PROTOCOL = [f"protocol.{x}" for x in ("permutations=49", "bootstrap=20", "vocabulary=30", "top_k=9")]
WORD_LIST = {"tempers": {"adjective": ["calm", "odd"]}, "trades": {"noun": ["hero"], "activity": ["reading"]}}


@pytest.fixture(scope="module")
def word_list(tmp_path_factory):
    path = tmp_path_factory.mktemp("lists") / "short.json"
    path.write_text(json.dumps(WORD_LIST))
    return path


@pytest.fixture(scope="module")
def sobit_folder(tmp_path_factory, word_list):
    """Write vectors of faces with race and gender, and of every prompt of sobit_association."""
    folder = precomputed(tmp_path_factory.mktemp("vectors") / "lab", width=24)
    frame = pd.read_parquet(folder / "faces.parquet")
    frame[["race", "gender"]] = frame["group"].str.split(" ", expand=True)
    frame.to_parquet(folder / "faces.parquet")
    arguments = sobit_args(folder, "association", word_list)
    assert stage.main(["prompts", "--output", str(folder / "prompts.parquet"), *arguments]) == 0
    vectors = np.random.default_rng(3).normal(size=(len(pd.read_parquet(folder / "prompts.parquet")), 24))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    save_file({"embedding": vectors.astype(np.float32)}, folder / "prompts.safetensors")
    return folder


def sobit_args(folder, measure, word_list):
    return [*overrides(folder, f"sobit_{measure}"), f"taxonomy.path={word_list}", *SOBIT_PROTOCOL]


@pytest.mark.parametrize("measure", ["association", "retrieval", "strength"])
def test_sobit_runs_on_precomputed_vectors_and_a_word_list(sobit_folder, word_list, job, tracker, measure):
    sobit_job = job(*sobit_args(sobit_folder, measure, word_list))
    result = perform(sobit_job, tracker)
    assert {*result["taxonomy"]} == {"short"}
    assert list(dict.fromkeys(result["word"])) == ["calm", "odd", "hero", "reading"]
    assert len(result) == 4 * (1 if measure == "strength" else 2 + 2 + 3)
    column = {"association": "association", "retrieval": "ratio", "strength": "strength"}[measure]
    assert result[column].notna().all()
    assert (
        len(tracker.find_finished("precomputed", encoder_job.compute_key(encoder_job.prepare(sobit_job))))
        == 1
    )


@pytest.mark.thorough
def test_a_job_is_identified_by_the_content_of_its_word_list(sobit_folder, word_list, job, tmp_path):
    def config_hash_of(path):
        return job(*sobit_args(sobit_folder, "association", path)).config_hash

    copy = tmp_path / "short.json"
    copy.write_text(word_list.read_text())
    assert config_hash_of(copy) == config_hash_of(word_list)
    copy.write_text(json.dumps({**WORD_LIST, "more": {"noun": ["smith"]}}))
    assert config_hash_of(copy) != config_hash_of(word_list)


def test_a_missing_prompt_is_named_and_many_are_counted(sobit_folder, word_list, job, tmp_path):
    folder = precomputed(tmp_path / "lab", width=24)
    for name in ("faces.parquet", "faces.safetensors"):
        (folder / name).write_bytes((sobit_folder / name).read_bytes())
    frame = pd.DataFrame({"id": ["x"], "sentence": ["a photo of a hero"]})
    frame.to_parquet(folder / "prompts.parquet")
    save_file({"embedding": np.eye(1, 24, dtype=np.float32)}, folder / "prompts.safetensors")
    message = "3 of the 4 prompts.*'a photo of a calm person'.*'a photo of an odd"
    with pytest.raises(NotApplicable, match=message):
        encoder_job.prepare(job(*sobit_args(folder, "retrieval", word_list)))
    with pytest.raises(NotApplicable, match=r"and \d+ more. To list them all: python -m src.stage"):
        encoder_job.prepare(job(*sobit_args(folder, "association", word_list), "protocol.vocabulary=300"))


def test_specifications_without_effect_are_not_applicable(sobit_folder, word_list, job):
    for measure, protocol in (("retrieval", "baseline_bare"), ("association", "k_100")):
        with pytest.raises(NotApplicable, match="has no effect"):
            encoder_job.prepare(job(*sobit_args(sobit_folder, measure, word_list), f"protocol={protocol}"))
    bare = job(*sobit_args(sobit_folder, "association", word_list), "protocol=baseline_bare")
    assert "the" in set(load_study(bare.cfg.exp).prompts(bare.cfg).frame["sentence"])
    literal = job(*sobit_args(sobit_folder, "retrieval", word_list), "protocol=article_literal")
    sentences = set(load_study(literal.cfg.exp).prompts(literal.cfg).frame["sentence"])
    assert "a photo of a/an odd person" in sentences
