"""Compute which option is likeliest after a question for a causal language model, without parsing.

See docs/methods.md, section 5.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import softmax

from src.generators.causal import longest_first, pad_left

# Every order of three options: order[place] is the option shown at that place.
ORDERS = tuple(itertools.permutations(range(3)))
# Smaller differences of probabilities are rounding errors.
TOLERANCE = 1e-9


def probabilities(
    log_p: Float[np.ndarray, "n 6 3"], tokens: Float[np.ndarray, "n 6 3"], *, per_token: bool
) -> Float[np.ndarray, "n 6 3"]:
    """Apply softmax over the three options within each order.

    `log_p` are sums over an option's tokens in nats. `per_token` divides by the number of tokens, so that
    short options are not favoured.
    """
    result: np.ndarray = softmax(log_p / tokens if per_token else log_p, axis=2)
    return result


def choices(averages: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, " n"]:
    """Return the index of each item's likeliest option; -1 if the second likeliest is within 1e-9 of it.

    `averages` are the probabilities of the options, averaged over their orders.
    """
    ordered = np.sort(averages, axis=1)
    indices: np.ndarray = np.where(ordered[:, 2] - ordered[:, 1] < TOLERANCE, -1, averages.argmax(axis=1))
    return indices


def position_effect(probabilities: Float[np.ndarray, "n 6 3"]) -> Float[np.ndarray, " n"]:
    """Compute the effect of the order of the options, in [0, 1].

    It is the total-variation distance of an order's probabilities from their average over the orders,
    averaged over the orders.
    """
    distances = np.abs(probabilities - probabilities.mean(axis=1, keepdims=True))
    effects: np.ndarray = distances.sum(axis=2).mean(axis=1) / 2
    return effects


@torch.inference_mode()
def log_probabilities(
    model: Any, dialogues: Sequence[tuple[Sequence[int], Sequence[int]]], *, batch_size: int, padding: int
) -> tuple[Float[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Compute the log-probability of each answer after its question.

    `dialogues` are m pairs of question and answer, each a non-empty sequence of token ids. Runs on the
    device of the model's parameters; dialogues of similar length are batched together, and padding has no
    effect on the results.

    Returns:
        Sum of the log-probabilities of each answer's tokens in nats, and the number of these tokens.
    """
    ids = [[*question, *answer] for question, answer in dialogues]
    lengths = np.array([len(answer) for _, answer in dialogues], dtype=int)
    log_p = np.empty(len(dialogues))
    device = next(model.parameters()).device
    for batch in longest_first(ids, batch_size):
        tokens, mask = (tensor.to(device) for tensor in pad_left([ids[index] for index in batch], padding))
        # All answers are aligned at the end, so that only their positions need logits.
        longest = int(lengths[batch].max())
        logits = model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            logits_to_keep=longest + 1,
            use_cache=False,
        ).logits
        log_probs = logits[:, :-1].double().log_softmax(dim=-1)
        token_log_p = log_probs.gather(2, tokens[:, -longest:, None]).squeeze(2)
        first_positions = longest - torch.tensor(lengths[batch], device=device)
        in_answer = torch.arange(longest, device=device) >= first_positions[:, None]
        log_p[batch] = torch.where(in_answer, token_log_p, 0.0).sum(dim=1).cpu().numpy()
    return log_p, lengths
