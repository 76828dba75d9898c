"""Check that likelihoods equal those of each text alone, and that no logged answer is computed again."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.api.failures import Unanswered
from src.configs import HfConfig, TinyConfig
from src.generators import model_weights, tiny
from src.storage.answer_log import AnswerLog
from src.studies.subtler import answers
from src.studies.subtler.answers import (
    compute_log_probabilities,
    compute_position_effects,
    compute_probabilities,
    select_options,
)
from src.studies.subtler.items import OPTIONS
from tests.generators.checkpoint import write_checkpoint

QUESTION = "{context}\nWhich?\n1 {first}\n2 {second}\n3 {third}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    config = HfConfig(id=str(write_checkpoint(tmp_path_factory.mktemp("model"))), batch_size=5)
    return model_weights.load(model_weights.locate(config), torch.device("cpu"))


@pytest.fixture
def items():
    rows = [(f"{name} is BLANK.", f"{name}y", "dull", f"so-{name}") for name in ("ann", "bob", "eve", "kim")]
    items = pd.DataFrame(rows, columns=["context", *OPTIONS])
    return items.assign(item=[str(n) for n in range(1, 5)])


def naive_log_p(model, beginning, ending):
    with torch.inference_mode():
        logits = model(torch.tensor([[*beginning, *ending]])).logits[0].double()
    total = 0.0
    for i, token in enumerate(ending):
        row = logits[len(beginning) + i - 1]
        total += float(row[token] - torch.logsumexp(row, 0))
    return total


def naive_probabilities(model, items):
    """Average options' probabilities over orders (docs/methods.md, section 5), one text at a time."""
    means_of_items = []
    for row in items.itertuples():
        options, means = [getattr(row, name) for name in OPTIONS], np.zeros(3)
        for order in itertools.permutations(range(3)):
            first, second, third = (options[index] for index in order)
            text = QUESTION.format(context=row.context, first=first, second=second, third=third)
            endings = map(model.tokenize_answer, options)
            scores = [naive_log_p(model.model, model.tokenize_question(text), ending) for ending in endings]
            means += np.exp(scores) / np.exp(scores).sum() / 6
        means_of_items.append(means)
    return np.array(means_of_items)


def test_likelihoods_are_those_of_each_text_alone(model, items, tmp_path):
    with AnswerLog(tmp_path / "log.jsonl") as answer_log:
        scored, metrics = answers.choose_likeliest(
            model, items, QUESTION, per_token=False, answer_log=answer_log
        )
    expected = naive_probabilities(model, items)
    assert scored[[f"p_{name}" for name in OPTIONS]].to_numpy() == pytest.approx(expected, abs=1e-5)
    chosen = [items.iloc[row][OPTIONS[best]] for row, best in enumerate(expected.argmax(axis=1))]
    assert scored["response"].tolist() == chosen
    assert metrics["position_effect"] == pytest.approx(scored["position_effect"].mean())
    assert scored["position_effect"].between(1e-6, 1).all()


def test_no_text_with_a_logged_answer_is_scored_or_sent_again(model, items, tmp_path, monkeypatch):
    with AnswerLog(tmp_path / "log.jsonl") as answer_log:
        first, _ = answers.choose_likeliest(
            model, items.head(2), QUESTION, per_token=True, answer_log=answer_log
        )
    with AnswerLog(tmp_path / "log.jsonl") as answer_log:
        all_items, _ = answers.choose_likeliest(model, items, QUESTION, per_token=True, answer_log=answer_log)
        monkeypatch.setattr(answers, "_score_options", lambda *_: pytest.fail("scored again"))
        again, _ = answers.choose_likeliest(model, items, QUESTION, per_token=True, answer_log=answer_log)
    pd.testing.assert_frame_equal(all_items, again)
    pd.testing.assert_frame_equal(all_items.head(2), first)
    texts_sent = []

    def ask(texts, answered):
        for place, text in enumerate(texts):
            texts_sent.append(text)
            yield {place: "x" if len(texts_sent) < 3 else "y"}

    def interrupted(texts, answered):
        for number, batch in enumerate(ask(texts, answered)):
            if number == 2:
                raise KeyboardInterrupt
            yield batch

    with AnswerLog(tmp_path / "free.jsonl") as answer_log, pytest.raises(KeyboardInterrupt):
        answers.collect_free_answers(interrupted, items, QUESTION, seed=0, answer_log=answer_log)
    with AnswerLog(tmp_path / "free.jsonl") as answer_log:
        answered_items, _ = answers.collect_free_answers(ask, items, QUESTION, seed=0, answer_log=answer_log)
    assert answered_items["response"].tolist() == ["x", "x", "y", "y"]
    # The first run was interrupted before it logged the answer to the third text, which was sent again.
    assert len(texts_sent) == 5
    assert len({*texts_sent}) == 4


def test_a_server_is_tested_with_a_question_that_it_answered(items, tmp_path):
    calls = []

    def ask(texts, answered):
        calls.append((texts, answered))
        yield {place: "x" if place else Unanswered("500: busy") for place in range(len(texts))}

    with AnswerLog(tmp_path / "log.jsonl") as answer_log:
        for count in (2, 4):
            answers.collect_free_answers(ask, items.head(count), QUESTION, seed=0, answer_log=answer_log)
    (texts, _), (_, answered) = calls
    assert answered == texts[1]


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_the_log_probability_of_an_answer_is_that_of_the_text_alone(batch_size):
    model, rng = tiny.load(TinyConfig(width=32, layers=2, heads=2, seed=0)).model, np.random.default_rng(0)
    dialogues = [[rng.integers(0, 60, rng.integers(1, end)).tolist() for end in (30, 7)] for _ in range(23)]
    log_p, counts = compute_log_probabilities(model, dialogues, batch_size=batch_size, padding=3)
    assert log_p == pytest.approx([naive_log_p(model, *dialogue) for dialogue in dialogues], abs=1e-5)
    assert counts.tolist() == [len(answer) for _, answer in dialogues]


def test_probabilities_position_effects_and_choices_equal_naive_loops():
    rng = np.random.default_rng(1)
    log_p, tokens = rng.normal(-9, 3, (5, 6, 3)), rng.integers(1, 5, (5, 6, 3))
    for per_token in (False, True):
        result = compute_probabilities(log_p, tokens, per_token=per_token)
        means, effects = result.mean(axis=1), compute_position_effects(result)
        for item in range(5):
            by_order = []
            for order in range(6):
                scores = np.exp(log_p[item, order] / (tokens[item, order] if per_token else 1))
                by_order.append(scores / scores.sum())
            mean = [sum(order[option] for order in by_order) / 6 for option in range(3)]
            assert means[item] == pytest.approx(mean)
            distances = [sum(abs(order[o] - mean[o]) for o in range(3)) / 2 for order in by_order]
            assert effects[item] == pytest.approx(sum(distances) / 6)
            assert select_options(means)[item] == max(range(3), key=mean.__getitem__)
    # Options that differ by rounding alone are a tie.
    means = np.array([[0.4, 0.4 + 5e-10, 0.2], [0.4, 0.4 + 5e-9, 0.2], [0.2, 0.3, 0.5]])
    assert select_options(means).tolist() == [-1, 1, 2]


@settings(max_examples=30)
@given(st.lists(st.floats(-30, 0), min_size=18, max_size=18), st.floats(-20, 20))
def test_position_effects_lie_in_0_to_1_and_are_zero_if_all_orders_agree(scores, shift):
    log_p = np.tile(np.array(scores[:3]), (1, 6, 1))
    # A constant that is added to all log-probabilities of an order changes nothing.
    shifted = log_p + shift * np.arange(6)[None, :, None]
    base, other = (
        compute_probabilities(result, np.ones((1, 6, 3)), per_token=False) for result in (log_p, shifted)
    )
    assert compute_position_effects(base) == pytest.approx(0, abs=1e-12)
    assert base == pytest.approx(other)
    skewed = np.array(scores).reshape(1, 6, 3)
    result = compute_probabilities(skewed, np.ones((1, 6, 3)), per_token=False)
    assert 0 <= compute_position_effects(result)[0] <= 1
