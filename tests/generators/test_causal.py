"""Checkpoints on disk: loaded, asked, and refused where they are not whole."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from src.configs import HfConfig
from src.errors import InputError
from src.generators import hub_weights
from tests.generators.checkpoint import saved

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"))


def opened(folder, **changes):
    config = HfConfig(**{"id": str(folder), "precision": "fp32", "batch_size": 5, "most": 6, **changes})
    return hub_weights.load(hub_weights.find(config), CPU)


@pytest.fixture(scope="module")
def model(folder):
    return opened(folder)


def test_the_chat_template_wraps_a_question(model, tmp_path):
    assert model.tokenizer.decode(model.question("Hi")) == "<|user|>Hi\n<|assistant|>"
    plain = opened(saved(tmp_path / "plain", chat=False))
    assert plain.tokenizer.decode(plain.question("Hi")) == "Hi\n"
    assert model.tokenizer.decode(model.ending("ok")) == "ok"


def test_free_answers_are_those_of_each_question_alone(model):
    texts = ["a", "a longer question", "b?", "which one", "and this is the longest of all", "six", "7"]
    together = {}
    for part in model.answers(texts, most=6):
        together |= part
    for place, text in enumerate(texts):
        question = torch.tensor([model.question(text)])
        said = question
        for _ in range(6):  # greedy, one token at a time
            token = model.model(said).logits[0, -1].argmax()
            if token == model.tokenizer.eos_token_id:
                break
            said = torch.cat([said, token[None, None]], dim=1)
        alone = model.tokenizer.decode(said[0, question.shape[1] :], skip_special_tokens=True)
        assert together[place] == alone


def test_half_precision_and_shards_load(folder, tmp_path):
    assert opened(folder, precision="bf16").model.dtype == torch.bfloat16
    sharded = saved(tmp_path / "sharded", shard="20KB")
    assert len(list(sharded.glob("model-*.safetensors"))) > 1
    one, other = (dict(opened(place).model.named_parameters()) for place in (folder, sharded))
    assert all(torch.equal(one[name], other[name]) for name in one)


def without_one(place):
    tensors = load_file(place / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, place / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda place: (place / "model.safetensors").unlink(), r"model\.safetensors"),
        (lambda place: (place / "config.json").unlink(), r"config\.json"),
        (lambda place: (place / "tokenizer.json").unlink(), r"tokenizer\.json"),
        (
            lambda place: (place / "model.safetensors").write_bytes(
                (place / "model.safetensors").read_bytes()[:-900]
            ),
            "cannot be loaded",
        ),
        (
            lambda place: (place / "config.json").write_text(
                json.dumps(json.loads((place / "config.json").read_text()) | {"intermediate_size": 65})
            ),
            "cannot be loaded",
        ),
        (without_one, "1 tensors lack or misfit"),
        (
            lambda place: (place / "config.json").write_text(
                json.dumps(json.loads((place / "config.json").read_text()) | {"num_hidden_layers": 3})
            ),
            "must be equal to the number of",
        ),
        (lambda place: (place / "config.json").write_text('{"model_type": "clip"}'), "cannot be loaded"),
    ],
)
def test_what_is_not_whole_is_refused(tmp_path, spoil, message):
    spoil(saved(tmp_path / "model"))
    with pytest.raises(InputError, match=message):
        opened(tmp_path / "model")


def test_other_weights_than_asked_for_are_refused(folder):
    found = hub_weights.find(HfConfig(id=str(folder), sha256="0" * 64))
    with pytest.raises(InputError, match=r"llm\.sha256 asks for 0000"):
        found.said()
    digest = hub_weights.find(HfConfig(id=str(folder))).said()["sha256"]
    assert hub_weights.find(HfConfig(id=str(folder), sha256=digest)).said()["revision"] == "folder"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"id": " "}, r"llm\.id is empty"),
        pytest.param({"id": "owner/no-such-model"}, "owner/no-such-model", marks=pytest.mark.thorough),
        ({"id": "no such folder"}, "neither a folder that exists nor owner/name"),
    ],
)
def test_a_model_that_is_not_there_is_said(config, message, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=message):
        hub_weights.find(HfConfig(**config))


def test_a_folder_has_no_revision(folder):
    with pytest.raises(InputError, match=r"Leave out llm\.revision"):
        hub_weights.find(HfConfig(id=str(folder), revision="abc"))
