"""Free answers, and likelihoods of options: those of each text alone, and none twice."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from src.configs import HfConfig
from src.generators import hub_weights
from src.generators.answer_log import Kept
from src.studies.subtler import answers
from src.studies.subtler.items import OPTIONS
from tests.generators.checkpoint import saved

QUESTION = "{context}\nWhich?\n1 {first}\n2 {second}\n3 {third}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    config = HfConfig(id=str(saved(tmp_path_factory.mktemp("model"))), batch_size=5, most=6)
    return hub_weights.load(hub_weights.find(config), torch.device("cpu"))


@pytest.fixture
def items():
    rows = [(f"{name} is BLANK.", f"{name}y", "dull", f"so-{name}") for name in ("ann", "bob", "eve", "kim")]
    found = pd.DataFrame(rows, columns=["context", *OPTIONS])
    return found.assign(item=[str(n) for n in range(1, 5)])


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
