"""Size, cost and accuracy of models are those that others publish."""

import math

import pytest

from src import configs
from src.encoders import catalogue, toy
from src.encoders.facts import FACTS, facts, zero_shot


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


def test_a_toy_is_counted(job):
    cfg = job("model=toy_s").cfg
    found = facts(cfg.model)
    network = toy.blank(cfg.model)
    assert found["parameters_millions"] == sum(p.numel() for p in network.parameters()) / 1e6
    # Two operations per multiply-add, each weight of the transformer once a patch: a lower bound.
    patches = (cfg.model.image_size // cfg.model.patch_size) ** 2
    weights = sum(p.numel() for p in network.model.visual.transformer.parameters())
    assert 2 * patches * weights / 1e9 < found["gflops_image"] * 1.1 < 4 * patches * weights / 1e9
    assert math.isnan(found["zero_shot"])


def test_of_vectors_nothing_is_known(tmp_path):
    assert all(math.isnan(value) for value in known(["model=precomputed", f"model.path={tmp_path}"]).values())
    assert tuple(known(["model=blip2"])) == FACTS


def test_accuracies_are_of_models_that_can_be_loaded():
    assert set(zero_shot()) <= set(catalogue.pairs())
    assert all(0 < value < 1 for value in zero_shot().values())
    assert len(zero_shot()) == 113
