"""Names and hashes of jobs."""

from dataclasses import replace

import pytest

from src import configs
from src.errors import InputError, NotApplicable
from src.jobs import encoder_job
from src.jobs.identity import Job
from tests.conftest import precomputed
from tests.paths import CHECKOUT


@pytest.mark.parametrize(
    ("overrides", "model", "protocol"),
    [
        ([], "toy_m", "paper"),
        (["protocol.k=500", "model.seed=0", "model.batch_size=7"], "toy_m", "paper"),
        (["protocol.k=100"], "toy_m", "paper+k=100"),
        (["protocol.attributes=held_out"], "toy_m", "paper+held_out"),
        (["protocol=held_out"], "toy_m", "held_out"),
        (["protocol=held_out", "protocol.k=100"], "toy_m", "held_out+k=100"),
        (["model=toy_s", "model.seed=3", "demo.bias=0"], "toy_s+seed=3+bias=0", "paper"),
        (["model.name=mine", "demo.bias=0.25", "protocol.ddof=0"], "mine+bias=0.25", "paper+ddof=0"),
        (["model=precomputed", "model.path=some/lab/"], "lab", "paper"),
        (["model=toy_s", "model.precision=bf16"], "toy_s+bf16", "paper"),
        (["model=clip_b32", "model.weights=random", "model.sha256=''"], "clip_b32+random", "paper"),
        (["model=clip_l14", "model.revision=abc"], "clip_l14+abc", "paper"),
        (["model=blip2", "model.pooling=mean"], "blip2+mean", "paper"),
        (["model=open_clip", "model.id=ViT-B-32/laion2b_s34b_b79k"], "ViT-B-32/laion2b_s34b_b79k", "paper"),
        (
            ["model=open_clip", "model.id=hf-hub:owner/name", "model.precision=fp16"],
            "hf-hub:owner/name+fp16",
            "paper",
        ),
        (["model=precomputed", "model.path=some/lab", "model.name=other"], "other", "paper"),
    ],
)
def test_names_say_what_differs_from_the_yaml(job, overrides, model, protocol):
    made = job(*overrides)
    assert (made.model, made.protocol) == (model, protocol)


def test_the_config_s_hash_is_blind_to_places_only(job):
    first = job("dataset=photos", "dataset.root=here").config_hash
    assert first == job("dataset=photos", "dataset.root=/there", "store.dir=x", "tracking.uri=y").config_hash
    for change in ("seed=1", "protocol.k=2", "exp=words_to_faces", "faces.per_group=9", "model.seed=1"):
        assert first != job("dataset=photos", "dataset.root=here", change).config_hash


@pytest.mark.parametrize(
    ("field", "first", "other"), [("intrinsic", "sc_eat", "difference"), ("extrinsic", "top_k", "zero_shot")]
)
def test_the_first_scores_are_in_no_key_for_finished_jobs_were_without_them(job, field, first, other):
    made = job()
    choices = dict(made.resolved["protocol"])
    assert choices.pop(field) == first
    assert replace(made, resolved={**made.resolved, "protocol": choices}).config_hash == made.config_hash
    chosen = job(f"protocol.{field}={other}")
    assert chosen.config_hash != made.config_hash
    assert chosen.protocol == f"paper+{other}"
    assert job(f"protocol={other}").protocol == other


def test_nothing_of_hydra_is_left_in_a_resolved_config(job):
    assert "hydra" not in str(job().resolved)
    assert job().resolved["store"]["dir"] == str(CHECKOUT / "data" / "embeddings")


def test_a_missing_value_is_named(job):
    with pytest.raises(InputError, match=r"model.path: not set. Say model.path=VALUE"):
        job("model=precomputed")


def test_random_weights_are_in_the_name_whatever_the_yaml_says(job):
    assert job("model=clip_b32", "model.name=mine", "model.weights=random").model == "mine+random"
    composed, choices = configs.compose(["model=clip_b32", "model.weights=random"])
    # As from a config folder of one's own, whose YAML says it.
    assert Job.of(composed, choices | {"model": "other"}, "").model == "other+random"


@pytest.mark.parametrize(
    ("exp", "reading", "why"),
    [
        ("faces_to_labels", "extremes_10", "differs from protocol=paper in extremes only"),
        ("faces_to_words", "unit_sentence", "differs from protocol=paper in unit only"),
        ("words_to_faces", "strata_all", "differs from protocol=paper in strata only"),
        ("faces_to_words", "targets_all", "differs from protocol=paper in targets only"),
        ("faces_to_words", "pooling_mean", "differs from protocol=paper in pooling only"),
    ],
)
def test_a_reading_that_decides_nothing_is_not_taken_for_another(tmp_path, job, exp, reading, why):
    lab = precomputed(tmp_path / "lab")
    made = job(f"model.path={lab}", "model=precomputed", f"exp={exp}", f"protocol={reading}")
    with pytest.raises(NotApplicable, match=why):
        encoder_job.prepare(made)
    # Said as a number, it is a setting for all experiments.
    encoder_job.prepare(
        job(f"model.path={lab}", "model=precomputed", f"exp={exp}", "protocol.extremes=10", "protocol.k=11")
    )


@pytest.mark.parametrize(("reading", "field"), [("difference", "intrinsic"), ("zero_shot", "extrinsic")])
@pytest.mark.parametrize("exp", ["cles_warmth", "sobit_association", "scenes_zero_shot"])
def test_scores_of_propagation_are_no_reading_of_other_studies(tmp_path, job, exp, reading, field):
    lab = precomputed(tmp_path / "lab")
    made = job(f"model.path={lab}", "model=precomputed", f"exp={exp}", f"protocol={reading}")
    with pytest.raises(NotApplicable, match=f"differs from protocol=paper in {field} only"):
        encoder_job.prepare(made)


def test_a_set_of_words_called_study_decides_and_the_study_s_name_does_not(job):
    sets = ("exp=cles_warmth", "+exp.sets.study=[{}]")
    one, other = (job(sets[0], sets[1].format(word)) for word in ("diligent", "idle"))
    assert one.config_hash != other.config_hash
    plain = job("exp=cles_warmth")
    assert plain.resolved["exp"].pop("study") == "implicit"
    assert plain.config_hash == job("exp=cles_warmth").config_hash
