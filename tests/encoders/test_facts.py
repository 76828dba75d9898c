"""Size, cost and accuracy of models are those that others publish."""

import csv
import math
from collections import Counter

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from src import configs
from src.encoders import catalogue, family_of, toy
from src.encoders.facts import FACTS, pretraining_sets, zero_shot


def facts(model):
    return family_of(model).facts(model)


def pretraining(model):
    return family_of(model).pretraining(model)


def known(overrides):
    composed, _ = configs.compose(overrides)
    from omegaconf import OmegaConf

    return facts(OmegaConf.to_object(composed.model))


@pytest.mark.parametrize(
    ("model", "parameters", "accuracy"),
    # Top-1 in the papers: CLIP B/32 63.2, L/14 75.5; OpenCLIP H/14 78.0.
    [("clip_b32", 151.28, 0.632), ("clip_l14", 427.62, 0.755), ("openclip_h14", 986.11, 0.780)],
)
def test_a_published_model_s_facts_are_its_paper_s(model, parameters, accuracy):
    found = known([f"model={model}"])
    assert found["parameters_millions"] == parameters
    assert found["zero_shot"] == pytest.approx(accuracy, abs=0.0015)
    assert found["gflops_image"] > 4


def test_random_weights_have_no_accuracy():
    found = known(["model=clip_b32", "model.weights=random"])
    assert math.isnan(found["zero_shot"])
    assert found["parameters_millions"] == 151.28


@pytest.mark.parametrize("name", ["toy_s", "toy_m", "toy_l"])
def test_a_toy_is_counted(job, name):
    model = job(f"model={name}").cfg.model
    found = facts(model)
    # In training nothing is fused that the counter does not know.
    network = toy.blank(model).model.train()
    with FlopCounterMode(display=False) as counted:
        network.encode_image(torch.zeros(1, 3, model.image_size, model.image_size))
    assert found["parameters_millions"] == sum(p.numel() for p in network.parameters()) / 1e6
    assert found["gflops_image"] == counted.get_total_flops() / 1e9
    assert math.isnan(found["zero_shot"])


def test_of_vectors_nothing_is_known(tmp_path):
    assert all(math.isnan(value) for value in known(["model=precomputed", f"model.path={tmp_path}"]).values())
    assert tuple(known(["model=blip2"])) == FACTS


def test_accuracies_are_of_models_that_can_be_loaded():
    assert set(zero_shot()) <= set(catalogue.pairs())
    assert all(0 < value < 1 for value in zero_shot().values())
    assert len(zero_shot()) == 113


# By hand, of the 90: which data, of how many weights.
CAPITANI = {
    "openai": 12, "yfcc15m": 4, "cc12m": 2, "laion400m": 12, "laion2b": 21, "laion5b": 2,
    "laion_aesthetic": 3,
    "merged2b": 4, "laion2b+mscoco": 2, "datacomp_xl": 4, "datacomp_l": 1, "datacomp_m": 1, "datacomp_s": 1,
    "commonpool_xl": 1, "commonpool_xl_clip": 1, "commonpool_xl_laion": 1,
    "commonpool_l": 1, "commonpool_l_basic": 1, "commonpool_l_clip": 1, "commonpool_l_image": 1,
    "commonpool_l_laion": 1, "commonpool_l_text": 1,
    "commonpool_m": 1, "commonpool_m_basic": 1, "commonpool_m_clip": 1, "commonpool_m_image": 1,
    "commonpool_m_laion": 1, "commonpool_m_text": 1,
    "commonpool_s": 1, "commonpool_s_basic": 1, "commonpool_s_clip": 1, "commonpool_s_image": 1,
    "commonpool_s_laion": 1, "commonpool_s_text": 1,
}  # fmt: skip


def test_every_model_of_capitani_has_its_pretraining_set():
    with catalogue.CAPITANI.open(encoding="utf-8", newline="") as file:
        rows = [(row["architecture"], row["weights"]) for row in csv.DictReader(file)]
    sets = Counter(pretraining_sets()[f"{catalogue.faithful(*row)}/{row[1]}"] for row in rows)
    assert sets == CAPITANI
    assert sets.total() == 90


def test_training_data_are_declared_for_every_model_that_can_be_loaded():
    assert set(pretraining_sets()) == {*catalogue.pairs(), catalogue.BLIP2}
    assert all(name == name.strip() != "" for name in pretraining_sets().values())


def model_of(*overrides):
    from omegaconf import OmegaConf

    return OmegaConf.to_object(configs.compose([*overrides])[0].model)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["model=toy_s"], "the dataset's captions"),
        (["model=toy_s", "model.steps=0"], "none"),
        (["model=clip_b32"], "openai"),
        (["model=clip_b32", "model.weights=random"], "none"),
        (["model=openclip_h14"], "laion2b"),
        (["model=siglip2_b16"], "webli"),
        (["model=blip2"], "coco+vg+cc3m+cc12m+sbu+laion115m"),
        (["model=precomputed", "model.path=x"], "unknown"),
        (["model=open_clip", "model.id=hf-hub:laion/CLIP-ViT-B-32-laion2B-s34B-b79K"], "unknown"),
        (["model=open_clip", "model.id=src/encoders"], "unknown"),
        # The tag names the maker; a tag that nobody declared names nothing; another BLIP-2 is another model.
        (["model=open_clip", "model.id=PE-Core-B-16/meta"], "unknown"),
        (["model=open_clip", "model.id=ViT-B-32/laion9b_s1b_b1k"], "unknown"),
        (["model=blip2", "model.id=Salesforce/blip2-itm-vit-g-coco"], "unknown"),
        (["model=clip_b32", "model.id=ViT-B-32/laion2b_s34b_b79k"], "laion2b"),
        # Stated by the user.
        (["model=blip2", "model.id=lab/blip2", "model.pretraining=coco"], "coco"),
        (["model=open_clip", "model.id=hf-hub:lab/clip", "model.pretraining=our_scans"], "our_scans"),
        (["model=precomputed", "model.path=x", "model.pretraining=laion2b"], "laion2b"),
        (["model=clip_b32", "model.pretraining=wit"], "wit"),
        (["model=clip_b32", "model.pretraining=wit", "model.weights=random"], "none"),
    ],
)
def test_pretraining_is_declared_or_unknown(overrides, expected):
    assert pretraining(model_of(*overrides)) == expected


@pytest.mark.parametrize("kind", ["open_clip", "blip2"])
@pytest.mark.parametrize("name", ["ViT-B-32-quickgelu/openai", "Salesforce/blip2-itm-vit-g"])
def test_of_a_folder_that_is_called_like_a_published_model_nothing_is_known(
    tmp_path, monkeypatch, kind, name
):
    model = model_of(f"model={kind}", f"model.id={name}", "model.revision=''", "model.sha256=''")
    assert facts(model)["parameters_millions"] > 100
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert all(math.isnan(value) for value in facts(model).values())
    assert pretraining(model) == "unknown"


def test_what_is_stated_names_no_other_job_where_nothing_is(job):
    silent = job("model=clip_b32")
    assert "pretraining" not in silent.resolved["model"]
    stated = job("model=clip_b32", "model.pretraining=wit")
    assert stated.model == silent.model == "clip_b32"
    # Its run is made anew, so that its tags say what is stated.
    assert stated.config_hash != silent.config_hash
