"""Log-probabilities against one text at a time; what is made of them against docs/methods.md, section 5."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.studies.subtler.likelihood import ORDERS, Likelihoods, asked, averaged, choices, position_effect


@pytest.fixture(scope="module")
def model():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=60, num_key_value_heads=2, **size)).eval()


def naive(model, beginning, ending):
    with torch.inference_mode():
        logits = model(torch.tensor([[*beginning, *ending]])).logits[0].double()
    total = 0.0
    for place, token in enumerate(ending):
        row = logits[len(beginning) + place - 1]
        total += float(row[token] - torch.logsumexp(row, 0))
    return total


def texts(count=23, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.integers(0, 60, rng.integers(1, 30)).tolist(), rng.integers(0, 60, rng.integers(1, 7)).tolist())
        for _ in range(count)
    ]


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_an_ending_s_log_probability_is_that_of_the_text_alone(model, batch_size):
    given_texts = texts()
    log_p, tokens = asked(model, given_texts, batch_size=batch_size, padding=3)
    assert log_p == pytest.approx([naive(model, *text) for text in given_texts], abs=1e-5)
    assert tokens.tolist() == [len(ending) for _, ending in given_texts]


def test_the_padding_decides_nothing(model):
    one, other = (asked(model, texts(), batch_size=8, padding=padding)[0] for padding in (0, 59))
    assert one == pytest.approx(other, abs=1e-6)


def test_every_order_is_there_once():
    assert sorted(ORDERS) == sorted(itertools.permutations(range(3)))


def test_what_is_made_of_likelihoods():
    rng = np.random.default_rng(1)
    log_p, tokens = rng.normal(-9, 3, (5, 6, 3)), rng.integers(1, 5, (5, 6, 3))
    for per_token in (False, True):
        found = Likelihoods(log_p, tokens).probabilities(per_token=per_token)
        means, effects = averaged(found), position_effect(found)
        for item in range(5):
            each = []
            for order in range(6):
                scores = [
                    log_p[item, order, option] / (tokens[item, order, option] if per_token else 1)
                    for option in range(3)
                ]
                total = sum(np.exp(score) for score in scores)
                each.append([np.exp(score) / total for score in scores])
            mean = [sum(order[option] for order in each) / 6 for option in range(3)]
            assert means[item] == pytest.approx(mean)
            apart = [sum(abs(order[o] - mean[o]) for o in range(3)) / 2 for order in each]
            assert effects[item] == pytest.approx(sum(apart) / 6)
            assert choices(means)[item] == max(range(3), key=mean.__getitem__)


def test_what_differs_by_rounding_alone_is_no_choice():
    means = np.array([[0.4, 0.4 + 5e-10, 0.2], [0.4, 0.4 + 5e-9, 0.2], [0.2, 0.3, 0.5]])
    assert choices(means).tolist() == [-1, 1, 2]


@settings(max_examples=30)
@given(st.lists(st.floats(-30, 0), min_size=18, max_size=18), st.floats(-20, 20))
def test_the_same_in_every_order_is_no_position_effect(scores, shift):
    log_p = np.tile(np.array(scores[:3]), (1, 6, 1))
    # A constant of an order, such as a hard question's, moves nothing.
    moved = log_p + shift * np.arange(6)[None, :, None]
    one, other = (
        Likelihoods(found, np.ones((1, 6, 3), int)).probabilities(per_token=False) for found in (log_p, moved)
    )
    assert position_effect(one) == pytest.approx(0, abs=1e-12)
    assert one == pytest.approx(other)
    skewed = np.array(scores).reshape(1, 6, 3)
    found = Likelihoods(skewed, np.ones((1, 6, 3), int)).probabilities(per_token=False)
    assert 0 <= position_effect(found)[0] <= 1
