"""Multimodal checkpoints on disk: what they write, how likely tokens were, and what is refused."""

import json

import numpy as np
import pytest
import torch

from src.configs import HfConfig, VlmHfConfig
from src.errors import InputError
from src.generators import hub_weights
from src.stimuli import pictures as read
from tests.generators import checkpoint, seeing

CPU = torch.device("cpu")
PROMPT = "A poem on <image>, now."
POOLS = {"some": [65, 70, 200], "one": [3], "all": list(range(256))}


def opened(folder, **changes):
    config = VlmHfConfig(**{"id": str(folder), "batch_size": 3, **changes})
    return hub_weights.load(hub_weights.find(config), CPU)


@pytest.fixture(scope="module", params=[seeing.idefics3, seeing.llava], ids=["idefics3", "llava"])
def model(request, tmp_path_factory):
    return opened(seeing.saved(tmp_path_factory.mktemp("model"), request.param))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return seeing.pictures(tmp_path_factory.mktemp("shown"), 7)


def naive(model, text, picture, most):
    """Greedily, one text and one token at a time, the whole text read anew at each."""
    image = {} if picture is None else {"images": [[read.read(picture)]]}
    inputs = dict(model.processor(text=[text], return_tensors="pt", **image))
    tokens, log_p = [], []
    for _ in range(most):
        spread = model.model(**inputs).logits[0, -1].double()
        spread = spread - spread.exp().sum().log()
        log_p.append([np.mean([float(spread[one]) for one in ids]) for ids in POOLS.values()])
        tokens.append(int(spread.argmax()))
        if tokens[-1] == model.processor.tokenizer.eos_token_id:
            break
        inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([[tokens[-1]]])], dim=1)
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return tuple(tokens), dict(zip(POOLS, np.mean(log_p, axis=0), strict=True))


def together(model, prompts, shown, **how):
    return {place: one for part in model.written(prompts, shown, **how) for place, one in part.items()}


def test_the_chat_template_wraps_a_prompt(model, tmp_path):
    assert model.question(PROMPT) == "<|user|>A poem on <image>, now.<|assistant|>"
    assert model.question("Only words") == "<|user|>Only words<|assistant|>"
    plain = opened(seeing.saved(tmp_path / "plain", chat=False))
    assert plain.question(PROMPT) == "Instruction: A poem on <image>, now.\n"


def test_poems_and_scores_are_those_of_each_picture_alone(model, shown):
    found = together(model, [PROMPT] * 7, shown, most=9, pools=POOLS)
    assert len({one.tokens for one in found.values()}) > 1
    for place, picture in enumerate(shown):
        tokens, log_p = naive(model, model.question(PROMPT), picture, 9)
        assert found[place].tokens == tokens
        assert found[place].log_p == pytest.approx(log_p, abs=1e-4)
        text = model.processor.tokenizer.decode(tokens, skip_special_tokens=True)
        assert found[place].text == text


def test_a_poem_ends_with_its_end_and_counts_it(model, shown):
    whole = together(model, [PROMPT] * 7, shown, most=9, pools=POOLS)
    end = whole[0].tokens[2]  # whatever comes third in the first is the end from now on
    before, model.model.generation_config.eos_token_id = model.model.generation_config.eos_token_id, [end]
    try:
        found = together(model, [PROMPT] * 7, shown, most=9, pools=POOLS)
    finally:
        model.model.generation_config.eos_token_id = before
    steps = whole[0].tokens.index(end) + 1
    assert found[0].tokens == whole[0].tokens[:steps]
    again = together(model, [PROMPT], shown[:1], most=steps, pools=POOLS)
    assert found[0].log_p == pytest.approx(again[0].log_p, abs=1e-4)
    for place, one in whole.items():
        own = one.tokens[: one.tokens.index(end) + 1] if end in one.tokens else one.tokens
        assert found[place].tokens == own


def test_words_alone_and_batches_change_nothing(model):
    prompts = ["joy", "a longer prompt than that", "fear of all", "so"]
    found = together(model, prompts, None, most=5, pools=POOLS)
    for place, prompt in enumerate(prompts):
        tokens, log_p = naive(model, model.question(prompt), None, 5)
        assert found[place].tokens == tokens
        assert found[place].log_p == pytest.approx(log_p, abs=1e-4)


def test_special_tokens_are_told(model):
    names = {model.processor.tokenizer.convert_ids_to_tokens(one) for one in model.special}
    assert {"<|endoftext|>", "<|padding|>", "<image>"} <= names
    assert not any(one < 256 for one in model.special)


@pytest.mark.parametrize(("made", "config"), [(seeing.saved, VlmHfConfig), (checkpoint.saved, HfConfig)])
def test_a_repository_s_own_ways_of_writing_are_left(tmp_path, made, config, shown):
    place = made(tmp_path / "model")
    ways = {"repetition_penalty": 5.0, "no_repeat_ngram_size": 1, "eos_token_id": 256}

    def said():
        model = hub_weights.load(hub_weights.find(config(id=str(place), batch_size=2)), CPU)
        if config is HfConfig:
            return list(model.answers(["one", "two"], most=12))
        return list(model.written([PROMPT] * 2, shown[:2], most=12, pools=POOLS))

    (place / "generation_config.json").write_text(json.dumps({"eos_token_id": 256}))
    before = said()
    (place / "generation_config.json").write_text(json.dumps(ways))
    assert said() == before


def without(name):
    return lambda place: (place / name).unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without("model.safetensors"), r"model\.safetensors"),
        (without("processor_config.json"), r"processor_config\.json or preprocessor_config\.json"),
        (without("tokenizer.json"), r"tokenizer\.json"),
        (
            lambda place: (place / "model.safetensors").write_bytes(
                (place / "model.safetensors").read_bytes()[:-900]
            ),
            "cannot be loaded",
        ),
        (lambda place: (place / "config.json").write_text('{"model_type": "qwen2"}'), "cannot be loaded"),
    ],
)
def test_what_is_not_whole_is_refused(tmp_path, spoil, message):
    spoil(seeing.saved(tmp_path / "model"))
    with pytest.raises(InputError, match=message):
        opened(tmp_path / "model")


@pytest.mark.thorough
def test_a_model_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="owner/no-such-model"):
        hub_weights.find(VlmHfConfig(id="owner/no-such-model"))
    with pytest.raises(InputError, match="files of a multimodal model"):
        hub_weights.find(VlmHfConfig(id=str(tmp_path)))


def test_half_precision_loads(tmp_path, shown):
    model = opened(seeing.saved(tmp_path / "model"), precision="bf16")
    assert model.model.dtype == torch.bfloat16
    (found,) = together(model, [PROMPT], shown[:1], most=3, pools=POOLS).values()
    assert len(found.tokens) == 3
