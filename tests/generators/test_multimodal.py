"""Check what multimodal checkpoints write, how likely tokens are, and that saved defaults are ignored."""

import json
from collections import ChainMap

import numpy as np
import pytest
import torch

from src.configs import HfConfig, VlmHfConfig
from src.generators import model_weights
from src.stimuli import pictures as read
from tests.generators import checkpoint

CPU = torch.device("cpu")
PROMPT = "A poem on <image>, now."
POOLS = {"some": [65, 70, 200], "one": [3], "all": list(range(256))}


def opened(folder, **changes):
    config = VlmHfConfig(**{"id": str(folder), "batch_size": 3, **changes})
    return model_weights.load(model_weights.locate(config), CPU)


@pytest.fixture(scope="module", params=[checkpoint.idefics3, checkpoint.llava], ids=["idefics3", "llava"])
def model(request, tmp_path_factory):
    return opened(checkpoint.write_checkpoint(tmp_path_factory.mktemp("model"), request.param))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return checkpoint.pictures(tmp_path_factory.mktemp("images"), 7)


def naive(model, text, picture, max_new_tokens):
    """Write greedily, one text at a time, and read the whole text again for each token."""
    image = {} if picture is None else {"images": [[read.read(picture)]]}
    inputs = dict(model.processor(text=[text], return_tensors="pt", **image))
    tokens, log_p = [], []
    for _ in range(max_new_tokens):
        log_probs = model.model(**inputs).logits[0, -1].double()
        log_probs = log_probs - log_probs.exp().sum().log()
        log_p.append([np.mean([float(log_probs[item]) for item in ids]) for ids in POOLS.values()])
        tokens.append(int(log_probs.argmax()))
        if tokens[-1] == model.processor.tokenizer.eos_token_id:
            break
        inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([[tokens[-1]]])], dim=1)
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return tuple(tokens), dict(zip(POOLS, np.mean(log_p, axis=0), strict=True))


def together(model, prompts, images, **options):
    return dict(ChainMap(*model.generate(prompts, images, **options)))


def test_the_chat_template_wraps_a_prompt(model, tmp_path):
    assert model.render_prompt(PROMPT) == "<|user|>A poem on <image>, now.<|assistant|>"
    assert model.render_prompt("Only words") == "<|user|>Only words<|assistant|>"
    plain = opened(checkpoint.write_checkpoint(tmp_path / "plain", checkpoint.idefics3, chat=False))
    assert plain.render_prompt(PROMPT) == "Instruction: A poem on <image>, now.\n"


def test_poems_and_scores_are_those_of_each_picture_alone(model, images):
    written = together(model, [PROMPT] * 7, images, max_new_tokens=9, token_pools=POOLS)
    assert len({item.tokens for item in written.values()}) > 1
    for index, picture in enumerate(images):
        tokens, log_p = naive(model, model.render_prompt(PROMPT), picture, 9)
        assert written[index].tokens == tokens
        assert written[index].log_p == pytest.approx(log_p, abs=1e-4)
        text = model.processor.tokenizer.decode(tokens, skip_special_tokens=True)
        assert written[index].text == text


def test_a_poem_ends_with_its_end_and_counts_it(model, images):
    complete = together(model, [PROMPT] * 7, images, max_new_tokens=9, token_pools=POOLS)
    end = complete[0].tokens[2]  # the third token of the first poem becomes the end token
    before, model.model.generation_config.eos_token_id = model.model.generation_config.eos_token_id, [end]
    try:
        written = together(model, [PROMPT] * 7, images, max_new_tokens=9, token_pools=POOLS)
    finally:
        model.model.generation_config.eos_token_id = before
    steps = complete[0].tokens.index(end) + 1
    assert written[0].tokens == complete[0].tokens[:steps]
    again = together(model, [PROMPT], images[:1], max_new_tokens=steps, token_pools=POOLS)
    assert written[0].log_p == pytest.approx(again[0].log_p, abs=1e-4)
    for index, item in complete.items():
        expected = item.tokens[: item.tokens.index(end) + 1] if end in item.tokens else item.tokens
        assert written[index].tokens == expected


def test_words_alone_and_batches_change_nothing(model):
    prompts = ["joy", "a longer prompt than that", "fear of all", "so"]
    written = together(model, prompts, None, max_new_tokens=5, token_pools=POOLS)
    for index, prompt in enumerate(prompts):
        tokens, log_p = naive(model, model.render_prompt(prompt), None, 5)
        assert written[index].tokens == tokens
        assert written[index].log_p == pytest.approx(log_p, abs=1e-4)


@pytest.mark.parametrize(
    ("family", "config"), [(checkpoint.idefics3, VlmHfConfig), (checkpoint.causal, HfConfig)]
)
def test_generation_defaults_of_a_repository_are_ignored(tmp_path, family, config, images):
    model_folder = checkpoint.write_checkpoint(tmp_path / "model", family)
    defaults = {"repetition_penalty": 5.0, "no_repeat_ngram_size": 1, "eos_token_id": 256}

    def texts():
        model = model_weights.load(model_weights.locate(config(id=str(model_folder), batch_size=2)), CPU)
        if config is HfConfig:
            return list(model.generate_answers(["one", "two"], max_new_tokens=12))
        return list(model.generate([PROMPT] * 2, images[:2], max_new_tokens=12, token_pools=POOLS))

    (model_folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 256}))
    before = texts()
    (model_folder / "generation_config.json").write_text(json.dumps(defaults))
    assert texts() == before
