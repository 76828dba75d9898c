"""The small encoders: open_clip's classes, seeded, refused where a word does not fit."""

from dataclasses import replace

import pytest
import torch
from open_clip.tokenizer import SimpleTokenizer

from src.configs import ToyConfig
from src.demo import toys
from src.encoders import open_encoder
from src.encoders.openclip import OpenClip
from src.errors import InputError
from src.stimuli import load
from tests.conftest import SHRUNK, places

SIZE = ToyConfig(
    image_size=32, patch_size=16, width=32, layers=1, heads=2, embed_dim=16, context_length=12, seed=0
)


def network(seed: int = 0) -> OpenClip:
    return OpenClip(
        toys.build(replace(SIZE, seed=seed)), None, SimpleTokenizer(context_length=12), "toy"
    ).eval()


def test_a_seed_gives_the_same_weights_and_leaves_others_random_numbers_alone():
    torch.manual_seed(7)
    first = torch.rand(1)
    torch.manual_seed(7)
    weights = [toys.build(replace(SIZE, seed=seed)).state_dict()["text_projection"] for seed in (0, 0, 1)]
    assert torch.equal(torch.rand(1), first)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_vectors_are_unit_float32():
    made = network()
    with torch.no_grad():
        texts = made.encode_texts(made.tokenize(["This is the word calm", "x"]))
        images = made.encode_images(torch.rand(3, 3, 32, 32))
    for vectors, rows in ((texts, 2), (images, 3)):
        assert vectors.shape == (rows, 16)
        assert vectors.dtype == torch.float32
        assert torch.allclose(vectors.norm(dim=1), torch.ones(rows))


def test_a_text_that_would_lose_its_end_is_refused():
    made = network()
    fits = "a b c d e f g h i j"
    assert made.tokenize([fits])[0, -1] != 0
    with pytest.raises(
        InputError, match=r"toy: 'a b c d e f g h i j k' needs 13 tokens, the context holds 12"
    ):
        made.tokenize(["short", fits + " k"])


@pytest.mark.parametrize(
    ("change", "other"),
    [
        (["model.seed=1"], True),
        (["demo.bias=0.5"], True),
        (["words.count=301"], True),
        (["model.name=another", "model.batch_size=9", "seed=4"], False),
    ],
)
def test_the_checkpoint_s_key_holds_what_it_was_trained_on(kept, job, change, other):
    def identity(*overrides):
        cfg = job(*SHRUNK, *places(kept), *overrides).cfg
        return open_encoder(cfg, lambda role: load(cfg, role)).identity

    assert (identity() != identity(*change)) is other


def test_faces_that_no_label_names_are_refused_before_training(kept, job):
    cfg = job(*SHRUNK, *places(kept), "~labels.race_words.Laapian").cfg
    with pytest.raises(InputError, match="no label names the faces of Laapian Men, Laapian Women"):
        open_encoder(cfg, lambda role: load(cfg, role))
