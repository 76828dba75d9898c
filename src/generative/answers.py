"""A model's answers to items: free ones, or the likeliest option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from src.generative import likelihood, prompts
from src.generative.causal import Causal
from src.generative.items import OPTIONS
from src.generative.likelihood import ORDERS, Likelihoods


def free(
    model: Causal, items: pd.DataFrame, question: str, *, seed: int, most: int
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Items with `response`, what a model says when it is asked once, options in an order by lot.

    Args:
        model: which.
        items: see `items.read`.
        question: see `prompts.checked`.
        seed: of the orders.
        most: tokens of an answer.

    Returns:
        The items with `order` (of the options, as they were shown) and `response`; no figures beside them.
    """
    orders = [
        prompts.order_of(item, context, seed)
        for item, context in zip(items["item"], items["context"], strict=True)
    ]
    asked = [
        model.question(prompts.asked(question, context, options, order))
        for (context, *options), order in zip(items[["context", *OPTIONS]].to_numpy(), orders, strict=True)
    ]
    shown = [", ".join(OPTIONS[index] for index in order) for order in orders]
    return items.assign(order=shown, response=model.answers(asked, most=most)), {}


def likeliest(
    model: Causal, items: pd.DataFrame, question: str, *, per_token: bool, shown: Callable[[int], object]
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Items with `response`, the option that a model finds likeliest over the six orders of the options.

    Args:
        model: which.
        items: see `items.read`.
        question: see `prompts.checked`.
        per_token: by the mean log-probability of a token rather than their sum.
        shown: told how many options have been weighed.

    Returns:
        The items with `p_stereotype`, `p_anti_stereotype`, `p_unrelated` (averaged over the orders),
        `position_effect` and `response` (null where two are equally likely); and its mean.
    """
    texts = []
    for context, *options in items[["context", *OPTIONS]].to_numpy():
        endings = [model.ending(option) for option in options]
        for order in ORDERS:
            beginning = model.question(prompts.asked(question, context, options, order))
            texts += [(beginning, ending) for ending in endings]
    log_p, tokens = likelihood.asked(
        model.model, texts, batch_size=model.batch_size, padding=model.padding, shown=shown
    )
    shape = (len(items), len(ORDERS), len(OPTIONS))
    found = Likelihoods(log_p.reshape(shape), tokens.reshape(shape)).probabilities(per_token=per_token)
    means, effects = likelihood.averaged(found), likelihood.position_effect(found)
    chosen = likelihood.choices(means)
    texts_of = items[OPTIONS].to_numpy()
    response: Any = np.where(chosen < 0, None, texts_of[np.arange(len(items)), chosen])
    known = {f"p_{name}": means[:, place] for place, name in enumerate(OPTIONS)}
    answered = items.assign(**known, position_effect=effects, response=response)
    return answered, {"position_effect": float(effects.mean())}
