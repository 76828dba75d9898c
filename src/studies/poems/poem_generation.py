"""Generate poems on emotion words and about faces, with the log-probability of each pool of tokens.

See docs/methods.md, section 3.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from src.errors import InputError, brief
from src.generators.answer_log import AnswerLog
from src.generators.language_models import IMAGE, Multimodal
from src.generators.reasoning import has_reasoning
from src.storage.cache import fingerprint
from src.studies.poems.config import PoemConfig

log = logging.getLogger(__name__)

WORD = "{word}"
POLES = ("positive", "negative")
# Treatments of token ids that are in both pools.
SHARED = ("removed", "kept")

# (pool, treatment of ids in both pools) -> its ids, ascending.
Pools = dict[tuple[str, str], list[int]]


def check_task(task: PoemConfig) -> None:
    """Check that each prompt has its placeholder and each pool has texts; raise `InputError` otherwise."""
    slots = [("image_prompt", task.image_prompt, IMAGE)]
    slots += [] if task.pool_texts else [("text_prompt", task.text_prompt, WORD)]
    for name, prompt, slot in slots:
        count = prompt.count(slot)
        if count != 1:
            raise InputError(f"task.{name}={prompt!r}: expected {slot} once, got it {count} times. Edit it.")
    setting, pools = ("pool_texts", task.pool_texts) if task.pool_texts else ("words", task.words)
    if set(pools) != set(POLES) or not all(
        texts and all(text.strip() for text in texts) for texts in pools.values()
    ):
        poles = " and ".join(POLES)
        noun = setting.removeprefix("pool_")
        raise InputError(
            f"task.{setting}: expected {noun} under {poles} only, got {brief(pools)}. Correct it."
        )


def is_poem(answer: Any) -> bool:
    """Return whether a value is a poem as `_poems` logs it."""
    return (
        isinstance(answer, dict)
        and isinstance(answer.get("text"), str)
        and isinstance(answer.get("tokens"), list)
        and isinstance(answer.get("log_p"), dict)
        and all(isinstance(token, int) for token in answer["tokens"])
        and all(isinstance(value, int | float) for value in answer["log_p"].values())
    )


def generate_on_words(model: Multimodal, task: PoemConfig, answer_log: AnswerLog) -> pd.DataFrame:
    """Return a poem on each emotion word; generate those missing from the log and add them to it.

    Columns: `pool`, `word`, `text`, `ids` (those of the generated tokens).
    """
    words = [(pool, word) for pool in POLES for word in task.words[pool]]
    prompts = [task.text_prompt.replace(WORD, word) for _, word in words]
    keys = [fingerprint([prompt, task.most]) for prompt in prompts]
    poems = _poems(model, prompts, None, keys, task.most, answer_log, token_pools={})
    table = pd.DataFrame(words, columns=["pool", "word"])
    return table.assign(text=[poem["text"] for poem in poems], ids=[poem["tokens"] for poem in poems])


def read_texts(model: Multimodal, task: PoemConfig) -> pd.DataFrame:
    """Return the task's texts of each pool in the columns of `generate_on_words`; nothing is generated.

    Each text is tokenised after a blank, as within a poem: tokenizers tell the start of a text apart.
    """
    texts = [(pool, text) for pool in POLES for text in task.pool_texts[pool]]
    table = pd.DataFrame(texts, columns=["pool", "text"])
    encoded = [
        model.processor.tokenizer(f" {text}", add_special_tokens=False)["input_ids"] for text in table["text"]
    ]
    return table.assign(word=table["text"], ids=encoded)


def collect_pools(poems: pd.DataFrame, special: set[int]) -> Pools:
    """Collect the unique token ids of texts (`pool`, `ids`) per pool, without the ids of special tokens."""
    ids = {
        pool: {token for tokens in poems["ids"][poems["pool"] == pool] for token in tokens} - special
        for pool in POLES
    }
    common = ids["positive"] & ids["negative"]
    excluded = {"removed": common, "kept": set[int]()}
    return {(pool, shared): sorted(ids[pool] - excluded[shared]) for pool in POLES for shared in SHARED}


def generate_on_faces(
    model: Multimodal, task: PoemConfig, faces: pd.DataFrame, token_pools: Pools, answer_log: AnswerLog
) -> pd.DataFrame:
    """Generate a poem about each face unless the log has it, and score it for each pool.

    Return `id`, `group`, `text`, `tokens` (number of generated tokens, with the end token) and a score for
    each pool ("positive_removed"): the mean over generation steps of the mean log-probability of its ids,
    in nats; NaN for an empty pool.
    """
    named_pools = {f"{pool}_{shared}": ids for (pool, shared), ids in token_pools.items()}
    scored = {name: ids for name, ids in named_pools.items() if ids}
    keys = [fingerprint([task.image_prompt, digest, task.most, scored]) for digest in faces["sha256"]]
    paths = [Path(path) for path in faces["path"]]
    prompts = [task.image_prompt] * len(faces)
    poems = _poems(model, prompts, paths, keys, task.most, answer_log, token_pools=scored)
    table = faces[["id", "group"]].assign(
        text=[poem["text"] for poem in poems], tokens=[len(poem["tokens"]) for poem in poems]
    )
    scores = {name: [poem["log_p"].get(name, math.nan) for poem in poems] for name in named_pools}
    return table.assign(**scores)


def count_reasoning(poems: Sequence[str]) -> list[str]:
    """Count the poems that contain reasoning: scores are of all generated tokens, which include it."""
    if not (count := sum(map(has_reasoning, poems))):
        return []
    note = f"{count} of {len(poems)} poems contain reasoning, which is scored as part of the poem"
    log.warning("%s. Use a model that writes none", note)
    return [note]


def _poems(
    model: Multimodal,
    prompts: Sequence[str],
    images: Sequence[Path] | None,  # None for prompts without a picture
    keys: Sequence[str],
    max_new_tokens: int,
    answer_log: AnswerLog,
    token_pools: Mapping[str, Sequence[int]],
) -> list[dict[str, Any]]:
    """Return the poems by their keys; those that the log lacks are generated and logged as they arrive."""
    # Each key once: two faces may share a picture.
    missing = list({key: index for index, key in enumerate(keys) if key not in answer_log.known}.values())
    missing_images = None if images is None else [images[index] for index in missing]
    missing_prompts = [prompts[index] for index in missing]
    batches = model.generate(
        missing_prompts, missing_images, max_new_tokens=max_new_tokens, token_pools=token_pools
    )
    for batch in batches:
        answer_log.append({keys[missing[index]]: asdict(poem) for index, poem in batch.items()})
    return [answer_log.known[key] for key in keys]
