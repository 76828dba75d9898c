"""Checkpoints on disk: loaded, asked, and refused where they are not whole."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from src.configs import HfConfig
from src.errors import InputError
from src.generators import answers, hub_weights
from src.generators.answer_log import Kept
from src.generators.items import OPTIONS
from tests.generators.checkpoint import saved

QUESTION = "{context}\nWhich?\n1 {first}\n2 {second}\n3 {third}"
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


@pytest.fixture
def items():
    rows = [(f"{name} is BLANK.", f"{name}y", "dull", f"so-{name}") for name in ("ann", "bob", "eve", "kim")]
    found = pd.DataFrame(rows, columns=["context", *OPTIONS])
    return found.assign(item=[str(n) for n in range(1, 5)])


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


def naive(model, items):
    """docs/methods.md, section 5: one text at a time."""
    found = []
    for row in items.itertuples():
        options, means = [getattr(row, name) for name in OPTIONS], np.zeros(3)
        for order in itertools.permutations(range(3)):
            first, second, third = (options[index] for index in order)
            asked = QUESTION.format(context=row.context, first=first, second=second, third=third)
            beginning, scores = model.question(asked), []
            for option in options:
                ending = model.ending(option)
                spread = model.model(torch.tensor([[*beginning, *ending]])).logits[0].double().log_softmax(-1)
                rows = range(len(beginning) - 1, len(beginning) + len(ending) - 1)
                scores.append(sum(float(spread[at, token]) for at, token in zip(rows, ending, strict=True)))
            means += np.exp(scores) / np.exp(scores).sum() / 6
        found.append(means)
    return np.array(found)


def test_likelihoods_are_those_of_each_text_alone(model, items, tmp_path):
    with Kept(tmp_path / "log.jsonl") as kept:
        found, figures = answers.likeliest(model, items, QUESTION, per_token=False, kept=kept)
    expected = naive(model, items)
    assert found[[f"p_{name}" for name in OPTIONS]].to_numpy() == pytest.approx(expected, abs=1e-5)
    chosen = [items.iloc[row][OPTIONS[best]] for row, best in enumerate(expected.argmax(axis=1))]
    assert found["response"].tolist() == chosen
    assert figures["position_effect"] == pytest.approx(found["position_effect"].mean())
    assert found["position_effect"].between(1e-6, 1).all()


def test_nothing_is_weighed_or_asked_twice(model, items, tmp_path, monkeypatch):
    with Kept(tmp_path / "log.jsonl") as kept:
        first, _ = answers.likeliest(model, items.head(2), QUESTION, per_token=True, kept=kept)
    with Kept(tmp_path / "log.jsonl") as kept:
        whole, _ = answers.likeliest(model, items, QUESTION, per_token=True, kept=kept)
        monkeypatch.setattr(answers, "_weighed", lambda *_: pytest.fail("weighed again"))
        again, _ = answers.likeliest(model, items, QUESTION, per_token=True, kept=kept)
    pd.testing.assert_frame_equal(whole, again)
    pd.testing.assert_frame_equal(whole.head(2), first)
    asked = []

    def ask(texts):
        for place, text in enumerate(texts):
            asked.append(text)
            yield {place: "x" if len(asked) < 3 else "y"}

    def broken(texts):
        for number, part in enumerate(ask(texts)):
            if number == 2:
                raise KeyboardInterrupt
            yield part

    with Kept(tmp_path / "free.jsonl") as kept, pytest.raises(KeyboardInterrupt):
        answers.free(broken, items, QUESTION, seed=0, kept=kept)
    with Kept(tmp_path / "free.jsonl") as kept:
        found, _ = answers.free(ask, items, QUESTION, seed=0, kept=kept)
    assert found["response"].tolist() == ["x", "x", "y", "y"]
    # The third was in flight when the run broke off.
    assert len(asked) == len({*asked}) + 1 == 5


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
