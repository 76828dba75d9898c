"""A model's answers to items: free ones, or the likeliest option. None is asked for twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from src.generators.answer_log import Kept
from src.generators.causal import Causal
from src.generators.completions import Unanswered
from src.storage.cache import fingerprint
from src.studies.subtler import likelihood, questions
from src.studies.subtler.items import OPTIONS
from src.studies.subtler.likelihood import ORDERS, Likelihoods

# Items whose options are weighed before they are written down.
AT_ONCE = 64

# Answers to texts, by their places, as they come.
Asked = Callable[[Sequence[str]], Iterable[Mapping[int, str | Unanswered]]]
# Of a log: why a question has no answer.
UNANSWERED = "unanswered"


def is_free(answer: Any) -> bool:
    """Whether something is a free answer, or says why there is none."""
    if isinstance(answer, dict):
        return set(answer) == {UNANSWERED} and isinstance(answer[UNANSWERED], str)
    return isinstance(answer, str)


def is_weighed(answer: Any) -> bool:
    """Whether something is log-probabilities and numbers of tokens, as `likeliest` keeps them."""
    try:
        found = np.array(answer, dtype=float)
    except (ValueError, TypeError):
        return False
    return found.shape == (2, len(ORDERS), len(OPTIONS)) and not np.isnan(found).any()


def free(
    ask: Asked, items: pd.DataFrame, question: str, *, seed: int, kept: Kept
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Items with `response`, what a model says when it is asked once, options in an order by lot.

    Args:
        ask: a model.
        items: see `items.read`.
        question: see `questions.checked`.
        seed: of the orders.
        kept: answers that are there already; new ones go there as they come.

    Returns:
        The items with `order` (of the options, as they were shown), `response` (null where there is none) and
        `unanswered` (why not; null where there is one); no figures beside them.
    """
    orders, texts = _questions(items, question, seed)
    keys = [fingerprint(text) for text in texts]
    left = [place for place, key in enumerate(keys) if key not in kept.known]
    for found in ask([texts[place] for place in left]):
        kept.keep({keys[left[place]]: _logged(answer) for place, answer in found.items()})
    shown = [", ".join(OPTIONS[index] for index in order) for order in orders]
    answers = [kept.known[key] for key in keys]
    why: Any = [answer[UNANSWERED] if isinstance(answer, dict) else None for answer in answers]
    response: Any = [None if isinstance(answer, dict) else answer for answer in answers]
    return items.assign(order=shown, response=response, unanswered=why), {}


def answered_before(items: pd.DataFrame, question: str, *, seed: int, kept: Kept) -> str | None:
    """Return a question of these items that a log has an answer to; None where it has none."""
    _, texts = _questions(items, question, seed)
    return next((text for text in texts if fingerprint(text) in kept.known), None)


def _questions(items: pd.DataFrame, question: str, seed: int) -> tuple[list[tuple[int, int, int]], list[str]]:
    """Draw the order of each item's options, and write its question."""
    orders = [
        questions.order_of(item, context, seed)
        for item, context in zip(items["item"], items["context"], strict=True)
    ]
    texts = [
        questions.asked(question, context, options, order)
        for (context, *options), order in zip(items[["context", *OPTIONS]].to_numpy(), orders, strict=True)
    ]
    return orders, texts


def _logged(answer: str | Unanswered) -> object:
    return {UNANSWERED: answer.reason} if isinstance(answer, Unanswered) else answer


def likeliest(
    model: Causal, items: pd.DataFrame, question: str, *, per_token: bool, kept: Kept
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Items with `response`, the option that a model finds likeliest over the six orders of the options.

    Args:
        model: which.
        items: see `items.read`.
        question: see `questions.checked`.
        per_token: by the mean log-probability of a token rather than their sum.
        kept: log-probabilities that are there already; new ones go there as they come.

    Returns:
        The items with `p_stereotype`, `p_anti_stereotype`, `p_unrelated` (averaged over the orders),
        `position_effect` and `response` (null where two are equally likely); and its mean.
    """
    rows = items[["context", *OPTIONS]].to_numpy()
    keys = [fingerprint([question, *row]) for row in rows]
    left = [place for place, key in enumerate(keys) if key not in kept.known]
    for part in _parts(left, AT_ONCE):
        weighed = _weighed(model, [rows[place] for place in part], question)
        kept.keep({keys[place]: found for place, found in zip(part, weighed, strict=True)})
    known = np.array([kept.known[key] for key in keys])
    probabilities = Likelihoods(known[:, 0], known[:, 1].astype(int)).probabilities(per_token=per_token)
    means, effects = likelihood.averaged(probabilities), likelihood.position_effect(probabilities)
    chosen = likelihood.choices(means)
    response: Any = np.where(chosen < 0, None, rows[np.arange(len(rows)), 1 + chosen])
    named = {f"p_{name}": means[:, place] for place, name in enumerate(OPTIONS)}
    answered = items.assign(**named, position_effect=effects, response=response)
    return answered, {"position_effect": float(effects.mean())}


def _parts(places: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(places), size):
        yield places[start : start + size]


def _weighed(model: Causal, rows: Sequence[Sequence[str]], question: str) -> list[Any]:
    """Of each item the log-probabilities of its options in each order, and the numbers of their tokens."""
    texts = []
    for context, *options in rows:
        endings = [model.ending(option) for option in options]
        for order in ORDERS:
            beginning = model.question(questions.asked(question, context, options, order))
            texts += [(beginning, ending) for ending in endings]
    log_p, tokens = likelihood.asked(model.model, texts, batch_size=model.batch_size, padding=model.padding)
    shape = (len(rows), len(ORDERS), len(OPTIONS))
    both = np.stack([log_p.reshape(shape), tokens.reshape(shape)], axis=1)
    found: list[Any] = both.tolist()
    return found
