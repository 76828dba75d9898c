"""Check toys: tokens of sentences, seeded weights, and what the key of a checkpoint depends on."""

from dataclasses import replace

import pytest
import torch

from src.configs import ToyConfig
from src.demo import toys
from src.demo.vocabulary import SPARE_TOKENS, Vocabulary
from src.encoders import open_encoder
from src.errors import InputError
from src.stimuli import load
from tests.conftest import SHRUNK, store_overrides

WORDS = ["a", "man", "niff-born", "photo"]
SIZE = 1 + len(WORDS) + SPARE_TOKENS + 2


def test_words_are_tokens_between_start_and_end_cut_at_the_context():
    tokens = Vocabulary(WORDS, 8)(["A photo, niff-born", "man"]).tolist()
    assert tokens[0][0] == tokens[1][0] == SIZE - 2
    assert tokens[0][1:3] + tokens[0][4:6] == [1, 4, 3, SIZE - 1]
    assert tokens[1][1:] == [2, SIZE - 1, 0, 0, 0, 0, 0]
    assert max(map(max, tokens)) == SIZE - 1, "the end is the highest token, which CLIP pools"
    assert Vocabulary(WORDS, 4)(["a man a man a man"]).tolist() == [[SIZE - 2, 1, 2, 1]]


def test_other_words_share_the_spare_tokens():
    vocabulary = Vocabulary(WORDS, 8)
    tokens = [vocabulary.encode(word) for word in ("zebra", "Zebra", "qué", "男")]
    assert tokens[0] == tokens[1]
    assert {4 < token < SIZE - 2 for (token,) in tokens} == {True}
    many = {vocabulary.encode(f"w{number}")[0] for number in range(2_000)}
    assert many == set(range(5, SIZE - 2))


TOWER = ToyConfig(
    image_size=32, patch_size=16, width=32, layers=1, heads=2, embed_dim=8, context_length=12, seed=0
)


def test_a_seed_gives_the_same_weights_and_leaves_other_random_numbers_alone():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    weights = [
        toys.build(replace(TOWER, seed=seed), 70).state_dict()["text_projection"] for seed in (0, 0, 1)
    ]
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


def test_labels_of_other_axes_are_refused(stores, job):
    cfg = job(*SHRUNK, *store_overrides(stores)).cfg

    def load_without_race(role):
        table = load(cfg, role)
        columns = ["race", "race_word"] if role == "labels" else []
        return replace(table, frame=table.frame.drop(columns=columns))

    with pytest.raises(InputError, match="these name no race. Choose labels of both"):
        open_encoder(cfg, load_without_race)


@pytest.mark.parametrize("steps", [1, 9, 10, 11])
def test_the_learning_rate_is_defined_for_any_number_of_steps(steps):
    optimizers = toys._Contrastive(torch.nn.Linear(1, 1), 0.01, steps).configure_optimizers()
    (rate,) = optimizers["lr_scheduler"]["scheduler"].get_last_lr()
    assert 0 < rate <= 0.01
