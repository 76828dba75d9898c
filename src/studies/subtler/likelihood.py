"""Which option a causal language model finds likeliest after a question: no parsing.

See docs/methods.md, section 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

# Every order in which three options can be shown: order[place] is the option shown there.
ORDERS = tuple(itertools.permutations(range(3)))
# Options whose probabilities differ by less are told apart by rounding alone.
TIED = 1e-9


@dataclass(frozen=True)
class Likelihoods:
    """What a model makes of the options of each item, in the order of the items.

    Attributes:
        log_p: sum of the log-probabilities of an option's tokens, [items, orders, options], in nats.
        tokens: how many these are, same shape.
    """

    log_p: Float[np.ndarray, "n 6 3"]
    tokens: Int[np.ndarray, "n 6 3"]

    def probabilities(self, *, per_token: bool) -> Float[np.ndarray, "n 6 3"]:
        """Softmax over the three options within each order.

        Args:
            per_token: of the mean log-probability of a token, which does not favour short options.
        """
        from scipy.special import softmax

        scores = self.log_p / self.tokens if per_token else self.log_p
        found: np.ndarray = softmax(scores, axis=2)
        return found


def averaged(probabilities: Float[np.ndarray, "n 6 3"]) -> Float[np.ndarray, "n 3"]:
    """Probability of each option, averaged over the orders in which they were shown."""
    found: np.ndarray = probabilities.mean(axis=1)
    return found


def choices(averages: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, " n"]:
    """The likeliest option of each item; -1 where the second is within 1e-9 of it."""
    ordered = np.sort(averages, axis=1)
    found: np.ndarray = np.where(ordered[:, 2] - ordered[:, 1] < TIED, -1, averages.argmax(axis=1))
    return found


def position_effect(probabilities: Float[np.ndarray, "n 6 3"]) -> Float[np.ndarray, " n"]:
    """Mean total-variation distance of an order's probabilities from their average, in [0, 1]."""
    apart = np.abs(probabilities - probabilities.mean(axis=1, keepdims=True))
    found: np.ndarray = apart.sum(axis=2).mean(axis=1) / 2
    return found


def asked(
    model: Any,
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_size: int,
    padding: int,
) -> tuple[Float[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Log-probability of each ending after its beginning.

    Args:
        model: a causal language model of transformers; it computes where its parameters lie.
        texts: tokens of the beginning, and of the ending; neither is empty.
        batch_size: texts per forward pass; texts of like length go together.
        padding: a token that fills up the shorter ones; it decides no number.

    Returns:
        Sum of the log-probabilities of each ending's tokens in nats, and how many these are.
    """
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i][0]) - len(texts[i][1]))
    log_p = np.empty(len(texts))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        log_p[batch] = _batch(model, [texts[i] for i in batch], padding).cpu().numpy()
    return log_p, np.array([len(ending) for _, ending in texts], dtype=int)


@torch.inference_mode()
def _batch(model: Any, texts: Sequence[tuple[Sequence[int], Sequence[int]]], padding: int) -> Tensor:
    # Padded in front, so that all endings end together and only their positions need logits.
    width = max(len(beginning) + len(ending) for beginning, ending in texts)
    longest = max(len(ending) for _, ending in texts)
    tokens = torch.full((len(texts), width), padding)
    mask = torch.zeros_like(tokens)
    for row, (beginning, ending) in enumerate(texts):
        own = torch.tensor([*beginning, *ending])
        tokens[row, width - len(own) :], mask[row, width - len(own) :] = own, 1
    device = next(model.parameters()).device
    tokens, mask = tokens.to(device), mask.to(device)
    places = (mask.cumsum(dim=1) - 1).clamp(min=0)
    logits = model(
        input_ids=tokens,
        attention_mask=mask,
        position_ids=places,
        logits_to_keep=longest + 1,
        use_cache=False,
    ).logits
    spread = logits[:, :-1].double().log_softmax(dim=-1)
    each = spread.gather(2, tokens[:, -longest:, None]).squeeze(2)
    lengths = torch.tensor([len(ending) for _, ending in texts], device=device)
    own = torch.arange(longest, device=device) >= longest - lengths[:, None]
    return torch.where(own, each, 0.0).sum(dim=1)
