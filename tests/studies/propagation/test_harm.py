"""Check harm in propagation's place: scores, level, nulls, keys and refusals."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from src import configs
from src.embeddings import load_embeddings
from src.errors import NotApplicable
from src.jobs import encoder_job
from src.jobs.identity import Job
from src.stimuli import PROMPTS, load
from src.studies.propagation import experiment
from src.studies.propagation.study import STUDY
from src.studies.shared.face_classes import classify
from tests.conftest import precomputed
from tests.studies.propagation.test_uncertainty import FEW_DRAWS, overrides

HARM = {**FEW_DRAWS, "extrinsic": "harm", "article": "literal"}
WIDTH = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab")


def compose(folder, exp, **protocol):
    return Job.of(*configs.compose(overrides(folder, exp, **{**HARM, **protocol})), "").cfg


def run(folder, exp, **protocol):
    """Run an experiment with random vectors of classes; return its result and whether faces are harmed."""
    cfg = compose(folder, exp, **protocol)
    prompts = STUDY.prompts(cfg)
    rng = np.random.default_rng(3)
    texts = rng.normal(size=(len(prompts.frame), WIDTH))
    texts = torch.from_numpy(texts / np.linalg.norm(texts, axis=1, keepdims=True))
    tables = {role: load(cfg, role) for role in (cfg.exp.targets, cfg.exp.corpus)}
    vectors = {role: load_embeddings(cfg, role, lambda name: load(cfg, name)).vectors for role in tables}
    tables, vectors = {**tables, PROMPTS: prompts}, {**vectors, PROMPTS: texts}
    result = STUDY.run(cfg, tables, vectors)
    return result, classify(vectors["faces"], prompts, texts).is_harmful, tables["faces"].frame


@pytest.mark.parametrize("exp", ["faces_to_words", "faces_to_labels"])
def test_harm_is_the_outcome_and_has_rho_and_level(exp, folder):
    result, is_harmful, faces = run(folder, exp)
    harm = pd.Series(is_harmful.astype(float), faces["id"])
    assert 0 < harm.mean() < 1
    for stratum, rows in result.targets.groupby("stratum"):
        assert rows["extrinsic"].tolist() == harm[rows["id"]].tolist()
        analysis = result.analyses.set_index("stratum").loc[stratum]
        rho = stats.spearmanr(rows["intrinsic"], rows["extrinsic"]).statistic
        assert analysis["rho"] == pytest.approx(rho)
        inside = (faces["group"] == analysis["group"]).to_numpy()
        assert analysis["level"] == pytest.approx(is_harmful[inside].mean() - is_harmful[~inside].mean())
        assert analysis["level_low"] < analysis["level"] < analysis["level_high"]
    assert result.analyses["extrinsic_label"].unique() == ["harm: 1 if classified into a harmful class"]
    # Each outcome is at a bound, which is no ceiling of the level.
    assert result.analyses[["level_p", "at_bound", "ceiling"]].isna().all(axis=None)
    assert any("no p of levels" in note for note in result.notes)


def test_the_placebo_permutes_what_is_measured_and_leaves_harm(folder):
    result, _, _ = run(folder, "faces_to_words")
    row = result.analyses.iloc[0]
    placebo = result.draws[(result.draws["kind"] == "placebo") & (result.draws["stratum"] == row["stratum"])]
    assert len(placebo) == FEW_DRAWS["placebo"]
    assert placebo["rho"].nunique() > 10
    assert row["p_placebo"] == pytest.approx((1 + (placebo["rho"] >= row["rho"]).sum()) / (1 + len(placebo)))


@pytest.mark.parametrize("exp", ["scenes_to_words", "words_to_faces", "labels_to_scenes"])
def test_only_faces_are_harmed(exp, folder):
    cfg = compose(folder, exp)
    tables = {role: load(cfg, role) for role in (cfg.exp.targets, cfg.exp.corpus)}
    with pytest.raises(NotApplicable, match="expected targets faces, got"):
        STUDY.check(cfg, tables)


def test_halves_of_the_corpus_do_not_change_harm(folder):
    cfg = compose(folder, "faces_to_words")
    cfg.exp.reliability = True
    tables = {role: load(cfg, role) for role in ("faces", "words")}
    with pytest.raises(NotApplicable, match="protocol.extrinsic=harm does not depend on it"):
        STUDY.check(cfg, tables)


@pytest.mark.thorough
def test_classes_are_in_the_key_of_harm_alone(folder, job):
    def hashed(*options, **protocol):
        fields = overrides(folder, "faces_to_words", **{**HARM, **protocol})
        return job(*fields, *options).config_hash

    others = "classes=clip_child"
    assert hashed() != hashed(others)
    assert hashed(extrinsic="top_k") == hashed(others, extrinsic="top_k")


def test_precomputed_vectors_lack_the_sentences(folder, job):
    with pytest.raises(NotApplicable, match="prompts"):
        encoder_job.prepare(job(*overrides(folder, "faces_to_words", **HARM)))


def test_vectors_without_prompts_are_an_error(folder):
    cfg = compose(folder, "faces_to_words")
    tables = [load(cfg, role) for role in ("faces", "words")]
    vectors = [load_embeddings(cfg, table.role, lambda role: load(cfg, role)).vectors for table in tables]
    with pytest.raises(ValueError, match="bind them first"):
        experiment.run(*tables, *vectors, cfg.protocol, 5)
