"""Check packed causal text towers against open_clip."""

import open_clip
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.encoders.openclip import PackedTextTower

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


def model(name="argmax", *, quick=False, **fields):
    torch.manual_seed(0)
    text = open_clip.CLIPTextCfg(**{**TEXT, **TOWERS.get(name, {}), **fields})
    kind = open_clip.CustomTextCLIP if name in CUSTOM or fields else open_clip.CLIP
    network = kind(32, open_clip.CLIPVisionCfg(**VISION), text, quick_gelu=quick)
    # With the usual initial weights, positions hardly matter.
    for parameter, weight in network.named_parameters():
        if "ln" not in parameter:
            torch.nn.init.normal_(weight, std=0.3)
    return network.double().eval().requires_grad_(False)


def tokens(sentences):
    rows = [[WORDS - 2, *words, END] for words in sentences]
    return torch.tensor([row + [0] * (CONTEXT - len(row)) for row in rows])


TOWER = {name: model(name) for name in TOWERS} | {"quick": model(quick=True)}
word = st.integers(1, WORDS - 3)
sentences = st.tuples(
    st.lists(word, max_size=4), st.lists(st.lists(word, max_size=CONTEXT - 6), min_size=1, max_size=9)
).map(lambda drawn: [[*drawn[0], *words] for words in drawn[1]])


@pytest.mark.parametrize("name", TOWER)
@given(drawn=sentences)
@settings(max_examples=40, deadline=None)
def test_every_vector_is_open_clips(name, drawn):
    ids = tokens(drawn)
    packed = PackedTextTower.from_model(TOWER[name])
    expected = TOWER[name].encode_text(ids)
    assert torch.allclose(packed(ids), expected, rtol=0, atol=1e-11)
    used = int((packed.pooled_positions(ids) + 1).max())
    assert used == max(len(words) + 2 for words in drawn)
    assert torch.equal(packed(ids[:, :used]), packed(ids))


@pytest.mark.parametrize("rows", [[[5, 1, 2, END], [WORDS - 2, 3, END]], [[0], [4, 5, END]]])
def test_sentences_may_differ_in_the_first_token_and_have_no_end(rows):
    ids = torch.tensor([row + [0] * (CONTEXT - len(row)) for row in rows])
    assert torch.allclose(
        PackedTextTower.from_model(TOWER["eos"])(ids), TOWER["eos"].encode_text(ids), rtol=0, atol=1e-11
    )


@pytest.mark.parametrize(
    "more", [{"no_causal_mask": True}, {"embed_cls": True}, {"pool_type": "last"}, {"qk_norm": True}]
)
def test_other_towers_are_not_packed(more):
    assert PackedTextTower.from_model(model("other", **more)) is None


def test_float32_and_half_precision_are_as_accurate_as_open_clip():
    tower, ids = TOWER["argmax"], tokens([[1, 2, 3], [1, 2, 4, 5], [1, 9]])
    exact = tower.encode_text(ids)
    single = model().float()
    assert torch.allclose(
        PackedTextTower.from_model(single)(ids).double(), exact, rtol=0, atol=1e-4 * exact.abs().max()
    )
    with torch.autocast("cpu", torch.bfloat16):
        packed, theirs = PackedTextTower.from_model(single)(ids), single.encode_text(ids)
    their_error = (theirs.double() - exact).abs().max()
    assert (packed.double() - exact).abs().max() < 2 * their_error
