"""Check the seeded weights of toy encoders, and what the key of a checkpoint depends on."""

from dataclasses import replace

import torch

from src.configs import ToyConfig
from src.demo import toys
from src.encoders import open_encoder
from src.stimuli import load
from tests.conftest import SHRUNK, store_overrides

SIZE = ToyConfig(
    image_size=32, patch_size=16, width=32, layers=1, heads=2, embed_dim=8, context_length=12, seed=0
)


def test_a_seed_gives_the_same_weights_and_leaves_other_random_numbers_alone():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    weights = [toys.build(replace(SIZE, seed=seed), 70).state_dict()["text_projection"] for seed in (0, 0, 1)]
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_key_of_a_checkpoint_has_its_training_data(stores, job):
    def identity(*overrides):
        cfg = job(*SHRUNK, *store_overrides(stores), *overrides).cfg
        return open_encoder(cfg, lambda role: load(cfg, role)).identity

    assert identity() == identity("model.name=another", "model.batch_size=9", "seed=4")
    for override in ("model.seed=1", "demo.bias=0.5", "words.count=301"):
        assert identity() != identity(override)
