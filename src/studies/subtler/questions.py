"""How a model is asked which of three options completes a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from src.errors import InputError
from src.storage.cache import fingerprint
from src.studies.subtler.likelihood import ORDERS

SLOTS = ("context", "first", "second", "third")


def checked(question: str) -> None:
    """See that a question shows the sentence and the three options, each once.

    Raises:
        InputError: it does not.
    """
    for slot in SLOTS:
        if question.count(f"{{{slot}}}") != 1:
            raise InputError(
                f"task.question: {{{slot}}} must stand in it once. Write a question with "
                f"{', '.join(f'{{{name}}}' for name in SLOTS)}."
            )


def asked(question: str, context: str, options: Sequence[str], order: Sequence[int]) -> str:
    """The question of an item with its options in an order; `order[place]` is the option shown there."""
    shown = dict(zip(SLOTS, (context, *(options[index] for index in order)), strict=True))
    # Not str.format: a context may hold braces of its own.
    parts = question
    for slot in SLOTS:
        parts = parts.replace(f"{{{slot}}}", f"\0{slot}\0")
    return "".join(shown.get(part, part) for part in parts.split("\0"))


def order_of(item: str, context: str, seed: int) -> tuple[int, int, int]:
    """The order in which a free answer's options are shown: one of six, by the item and the seed alone."""
    drawn = np.random.default_rng([seed, int(fingerprint([item, context]), 16)])
    first, second, third = ORDERS[int(drawn.integers(len(ORDERS)))]
    return first, second, third
