"""Collect a model's answers to items: free answers or likeliest options; logged answers are reused.

See docs/methods.md, section 5.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.special import softmax

from src.api.failures import Unanswered
from src.errors import InputError
from src.generators.language_models import Causal, batch_longest_first, find_padding_id, pad_left
from src.storage.answer_log import AnswerLog
from src.storage.cache import fingerprint
from src.studies.subtler.items import OPTIONS

# Fields of a question: the sentence, and the three options in the order of the question.
SLOTS = ("context", "first", "second", "third")
# Number of items whose options are scored between two writes to the log.
ITEMS_PER_WRITE = 64
# All orders of three options: order[place] is the index of the option at that place.
ORDERS = tuple(itertools.permutations(range(3)))
# Probabilities that differ by less than this are equal up to rounding errors.
TOLERANCE = 1e-9

# (questions, a question answered before or None) -> batches, as they arrive: index of a question -> its
# answer.
Ask = Callable[[Sequence[str], str | None], Iterable[Mapping[int, str | Unanswered]]]
# Key, in a log, of the reason why a question has no answer.
UNANSWERED = "unanswered"


def check_question(question: str) -> None:
    """Check that a question has the sentence and the three options, each once; else raise `InputError`."""
    for slot in SLOTS:
        count = question.count(f"{{{slot}}}")
        if count != 1:
            slots = ", ".join(f"{{{name}}}" for name in SLOTS)
            raise InputError(f"task.question: {{{slot}}} occurs {count} times. Use each of {slots} once.")


def compose_question(question: str, context: str, options: Sequence[str], order: Sequence[int]) -> str:
    """Compose the question of an item, with option `options[order[place]]` at each place."""
    values = dict(zip(SLOTS, (context, *(options[index] for index in order)), strict=True))
    # Not str.format: a context may contain braces.
    return re.sub(rf"{{({'|'.join(SLOTS)})}}", lambda slot: values[slot[1]], question)


def draw_order(item: str, context: str, seed: int) -> tuple[int, ...]:
    """Draw one of the six orders of the options of a free answer, by item and seed alone."""
    return ORDERS[int(_create_generator(item, context, seed).integers(len(ORDERS)))]


def _create_generator(item: str, context: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, int(fingerprint([item, context]), 16)])


def is_free_answer(answer: Any) -> bool:
    """Return whether a logged value is a free answer, or the reason for a missing answer."""
    if isinstance(answer, dict):
        return set(answer) == {UNANSWERED} and isinstance(answer[UNANSWERED], str)
    return isinstance(answer, str)


def are_option_scores(answer: Any) -> bool:
    """Return whether a logged value is the log-probabilities and token counts of an item's options."""
    try:
        values = np.array(answer, dtype=float)
    except (ValueError, TypeError):
        return False
    return values.shape == (2, len(ORDERS), len(OPTIONS)) and not np.isnan(values).any()


def collect_free_answers(
    ask: Ask, items: pd.DataFrame, question: str, *, seed: int, answer_log: AnswerLog
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Collect a model's free answer to each item, with the options in a random order by seed.

    New answers are added to the log as they arrive.

    Returns:
        The items with `response`, `order` (names of the options in the order of the question) and
        `unanswered` (the reason if `response` is null); and an empty dictionary in place of metrics.
    """
    orders, questions = [], []
    for item, context, *options in items[["item", "context", *OPTIONS]].to_numpy():
        orders.append(draw_order(item, context, seed))
        questions.append(compose_question(question, context, options, orders[-1]))
    keys = [fingerprint(text) for text in questions]
    missing = [index for index, key in enumerate(keys) if key not in answer_log.known]
    # A question without an answer, logged with its reason, does not show that a server works.
    logged = [answer_log.known.get(key) for key in keys]
    answered = next(
        (text for text, answer in zip(questions, logged, strict=True) if isinstance(answer, str)), None
    )
    for batch in ask([questions[index] for index in missing], answered):
        new_answers = {
            keys[missing[index]]: {UNANSWERED: answer.reason} if isinstance(answer, Unanswered) else answer
            for index, answer in batch.items()
        }
        answer_log.append(new_answers)
    order_names = [", ".join(OPTIONS[index] for index in order) for order in orders]
    answers = [answer_log.known[key] for key in keys]
    reasons: Any = [answer[UNANSWERED] if isinstance(answer, dict) else None for answer in answers]
    responses: Any = [None if isinstance(answer, dict) else answer for answer in answers]
    return items.assign(order=order_names, response=responses, unanswered=reasons), {}


def choose_likeliest(
    model: Causal, items: pd.DataFrame, question: str, *, per_token: bool, answer_log: AnswerLog
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Select the option of each item that is likeliest for a model, on average over the six orders.

    `per_token` uses the mean log-probability of an option's tokens rather than their sum. New
    log-probabilities are added to the log.

    Returns:
        The items with `response` (null if two options are equally likely), `p_stereotype`,
        `p_anti_stereotype` and `p_unrelated` (averaged over the orders) and `position_effect`; and the
        metric `position_effect`, its mean.
    """
    rows = items[["context", *OPTIONS]].to_numpy()
    keys = [fingerprint([question, *row]) for row in rows]
    missing = [index for index, key in enumerate(keys) if key not in answer_log.known]
    for start in range(0, len(missing), ITEMS_PER_WRITE):
        batch = missing[start : start + ITEMS_PER_WRITE]
        scored = _score_options(model, [rows[index] for index in batch], question)
        answer_log.append({keys[index]: scores for index, scores in zip(batch, scored, strict=True)})
    logged = np.array([answer_log.known[key] for key in keys])
    probabilities = compute_probabilities(logged[:, 0], logged[:, 1], per_token=per_token)
    means, effects = probabilities.mean(axis=1), compute_position_effects(probabilities)
    indices = select_options(means)
    responses: Any = np.where(indices < 0, None, rows[np.arange(len(rows)), 1 + indices])
    columns = {f"p_{name}": means[:, index] for index, name in enumerate(OPTIONS)}
    answered = items.assign(**columns, position_effect=effects, response=responses)
    return answered, {"position_effect": float(effects.mean())}


def _score_options(model: Causal, rows: Sequence[Sequence[str]], question: str) -> list[Any]:
    """Compute the log-probabilities and token counts of each item's options, [items][2][orders][options]."""
    dialogues = []
    for context, *options in rows:
        option_tokens = [model.tokenize_answer(option) for option in options]
        for order in ORDERS:
            question_tokens = model.tokenize_question(compose_question(question, context, options, order))
            dialogues += [(question_tokens, answer) for answer in option_tokens]
    padding = find_padding_id(model.tokenizer)
    log_p_and_counts = compute_log_probabilities(
        model.model, dialogues, batch_size=model.batch_size, padding=padding
    )
    shape = (len(rows), len(ORDERS), len(OPTIONS))
    scores: list[Any] = np.stack([values.reshape(shape) for values in log_p_and_counts], axis=1).tolist()
    return scores


def compute_probabilities(
    log_p: Float[np.ndarray, "n 6 3"], tokens: Float[np.ndarray, "n 6 3"], *, per_token: bool
) -> Float[np.ndarray, "n 6 3"]:
    """Compute the probabilities of the three options within each order, by softmax.

    `log_p` are sums over an option's tokens in nats, `tokens` the numbers of tokens. `per_token` divides the
    sums by the numbers, so that short options are not favoured.
    """
    result: np.ndarray = softmax(log_p / tokens if per_token else log_p, axis=2)
    return result


def select_options(averages: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, " n"]:
    """Select the index of each item's likeliest option; -1 if the second likeliest is within 1e-9 of it.

    `averages` are the probabilities of the options, averaged over their orders.
    """
    ordered = np.sort(averages, axis=1)
    indices: np.ndarray = np.where(ordered[:, 2] - ordered[:, 1] < TOLERANCE, -1, averages.argmax(axis=1))
    return indices


def compute_position_effects(probabilities: Float[np.ndarray, "n 6 3"]) -> Float[np.ndarray, " n"]:
    """Compute the effect of the order of the options on each item, in [0, 1].

    It is the mean over orders of the total-variation distance between an order's probabilities and their
    average over the orders.
    """
    distances = np.abs(probabilities - probabilities.mean(axis=1, keepdims=True))
    effects: np.ndarray = distances.sum(axis=2).mean(axis=1) / 2
    return effects


@torch.inference_mode()
def compute_log_probabilities(
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
    for batch in batch_longest_first(ids, batch_size):
        tokens, mask = (tensor.to(device) for tensor in pad_left([ids[index] for index in batch], padding))
        # Padding on the left aligns all answers at the end: only the last positions need logits.
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


def simulate_answers(items: pd.DataFrame, *, lean: float, seed: int) -> pd.DataFrame:
    """Simulate `response`: the stereotype with probability `lean`, otherwise one of the three at random.

    Thus the stereotype is chosen with probability (1 + 2 lean)/3, each other option with (1 - lean)/3. With
    equally many positive and negative items, the expectation of tau-c is lean (4 - lean)/3, up to 1/n, and
    the expectation of del_PL is 100 lean. The draws depend only on the seed and the item.
    """
    questions = zip(items["item"], items["context"], strict=True)
    draws = np.array([_create_generator(item, context, seed).random(2) for item, context in questions])
    chosen = np.where(draws[:, 0] < lean, OPTIONS.index("stereotype"), (3 * draws[:, 1]).astype(int))
    options = items[list(OPTIONS)].to_numpy()
    return items.assign(response=options[np.arange(len(items)), chosen])
