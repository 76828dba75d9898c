"""Causal text towers computed where they decide something: held against open_clip's own."""

import open_clip
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.encoders.packed_text_tower import Packed

CONTEXT, WORDS = 12, 30
END = WORDS - 1
TEXT = {"context_length": CONTEXT, "vocab_size": WORDS, "width": 32, "heads": 2, "layers": 3}
VISION = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
TOWERS = {
    "argmax": {},
    "eos": {"eos_id": END, "pool_type": "eos"},
    "scaled layers": {"ls_init_value": 0.3},
    "a projection with a bias": {"proj_bias": True},
    "no projection": {"proj_type": "none"},
}
CUSTOM = {"a projection with a bias", "no projection"}


def model(name="argmax", *, quick=False, **more):
    torch.manual_seed(0)
    text = open_clip.CLIPTextCfg(**{**TEXT, **TOWERS.get(name, {}), **more})
    kind = open_clip.CustomTextCLIP if name in CUSTOM or more else open_clip.CLIP
    made = kind(32, open_clip.CLIPVisionCfg(**VISION), text, quick_gelu=quick)
    # As drawn, positions hardly matter.
    for name_, weight in made.named_parameters():
        if "ln" not in name_:
            torch.nn.init.normal_(weight, std=0.3)
    return made.double().eval().requires_grad_(False)


def tokens(sentences):
    rows = [[WORDS - 2, *own, END] for own in sentences]
    return torch.tensor([row + [0] * (CONTEXT - len(row)) for row in rows])


TOWER = {name: model(name) for name in TOWERS} | {"quick": model(quick=True)}
word = st.integers(1, WORDS - 3)
sentences = st.tuples(
    st.lists(word, max_size=4),
    st.lists(st.lists(word, max_size=CONTEXT - 6), min_size=1, max_size=9),
).map(lambda drawn: [[*drawn[0], *own] for own in drawn[1]])


@pytest.mark.parametrize("name", TOWER)
@given(drawn=sentences)
@settings(max_examples=40, deadline=None)
def test_every_vector_is_open_clips(name, drawn):
    shown = tokens(drawn)
    packed = Packed.of(TOWER[name])
    wanted = TOWER[name].encode_text(shown)
    assert torch.allclose(packed(shown), wanted, rtol=0, atol=1e-11)
    used = int((packed.ends(shown) + 1).max())
    assert used == max(len(own) + 2 for own in drawn)
    assert torch.equal(packed(shown[:, :used]), packed(shown))


def test_sentences_need_not_begin_alike():
    shown = tokens([[1, 2], [3]])
    shown[0, 0] = 5
    assert torch.allclose(Packed.of(TOWER["eos"])(shown), TOWER["eos"].encode_text(shown), rtol=0, atol=1e-11)


def test_a_sentence_without_an_end_is_read_where_open_clip_reads_it():
    shown = torch.zeros(2, CONTEXT, dtype=torch.long)
    shown[1, :3] = torch.tensor([4, 5, END])
    assert torch.allclose(Packed.of(TOWER["eos"])(shown), TOWER["eos"].encode_text(shown), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "more",
    [
        {"no_causal_mask": True},
        {"embed_cls": True},
        {"pool_type": "last"},
        {"qk_norm": True},
    ],
)
def test_other_towers_are_left_to_open_clip(more):
    assert Packed.of(model("other", **more)) is None


def test_in_float32_and_half_precision_it_is_as_near_as_open_clip():
    made, shown = TOWER["argmax"], tokens([[1, 2, 3], [1, 2, 4, 5], [1, 9]])
    exact = made.encode_text(shown)
    single = model().float()
    assert torch.allclose(Packed.of(single)(shown).double(), exact, rtol=0, atol=1e-4 * exact.abs().max())
    with torch.autocast("cpu", torch.bfloat16):
        near, theirs = Packed.of(single)(shown), single.encode_text(shown)
    error = (theirs.double() - exact).abs().max()
    assert (near.double() - exact).abs().max() < 2 * error
