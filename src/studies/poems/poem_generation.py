"""Generate poems on emotion words and about faces, with the log-probability of each token pool.

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
from src.generators.language_models import IMAGE, Multimodal
from src.generators.reasoning import has_reasoning
from src.storage.answer_log import AnswerLog
from src.storage.cache import fingerprint
from src.studies.poems.config import PoemConfig

log = logging.getLogger(__name__)

WORD = "{word}"
POLES = ("positive", "negative")
# Treatments of token ids that both pools share.
SHARED_TREATMENTS = ("removed", "kept")

# (pool, treatment of shared token ids) -> token ids, ascending.
TokenPools = dict[tuple[str, str], list[int]]


def check_task(task: PoemConfig) -> None:
    """Check that each prompt has its placeholder and each pool has texts; raise `InputError` otherwise."""
    prompts = [("image_prompt", task.image_prompt, IMAGE)]
    prompts += [] if task.pool_texts else [("text_prompt", task.text_prompt, WORD)]
    for name, prompt, placeholder in prompts:
        count = prompt.count(placeholder)
        if count != 1:
            raise InputError(
                f"task.{name}={prompt!r}: expected {placeholder} once, got it {count} times. "
                f"Write {placeholder} once in task.{name}."
            )
    setting, texts_by_pole = ("pool_texts", task.pool_texts) if task.pool_texts else ("words", task.words)
    if set(texts_by_pole) != set(POLES) or not all(
        texts and all(text.strip() for text in texts) for texts in texts_by_pole.values()
    ):
        poles = " and ".join(POLES)
        noun = setting.removeprefix("pool_")
        raise InputError(
            f"task.{setting}: expected {noun} under {poles} only, none of them blank, got "
            f"{brief(texts_by_pole)}. Edit task.{setting}."
        )


def is_poem(answer: Any) -> bool:
    """Return whether a logged value is a poem as `_generate_missing` logs it."""
    return (
        isinstance(answer, dict)
        and isinstance(answer.get("text"), str)
        and isinstance(answer.get("tokens"), list)
        and isinstance(answer.get("log_p"), dict)
        and all(isinstance(token, int) for token in answer["tokens"])
        and all(isinstance(value, int | float) for value in answer["log_p"].values())
    )


def generate_on_words(model: Multimodal, task: PoemConfig, answer_log: AnswerLog) -> pd.DataFrame:
    """Generate a poem on each emotion word unless the log has it.

    Returns:
        One row per word: `pool`, `word`, `text` (the poem) and `ids` (the ids of its tokens).
    """
    words = [(pool, word) for pool in POLES for word in task.words[pool]]
    prompts = [task.text_prompt.replace(WORD, word) for _, word in words]
    keys = [fingerprint([prompt, task.most]) for prompt in prompts]
    poems = _generate_missing(model, prompts, None, keys, task.most, answer_log, token_pools={})
    table = pd.DataFrame(words, columns=["pool", "word"])
    return table.assign(text=[poem["text"] for poem in poems], ids=[poem["tokens"] for poem in poems])


def read_texts(model: Multimodal, task: PoemConfig) -> pd.DataFrame:
    """Read and tokenise the task's texts of each pool, in the columns of `generate_on_words`.

    Each text is tokenised with a space before it, as within a poem: many tokenizers give the first word of a
    text other ids.
    """
    texts = [(pool, text) for pool in POLES for text in task.pool_texts[pool]]
    table = pd.DataFrame(texts, columns=["pool", "text"])
    encoded = [
        model.processor.tokenizer(f" {text}", add_special_tokens=False)["input_ids"] for text in table["text"]
    ]
    return table.assign(word=table["text"], ids=encoded)


def collect_pools(texts: pd.DataFrame, special_ids: set[int]) -> TokenPools:
    """Collect the distinct token ids of each pool's texts (`pool`, `ids`), without special tokens."""
    ids = {
        pool: {token for tokens in texts["ids"][texts["pool"] == pool] for token in tokens} - special_ids
        for pool in POLES
    }
    shared = ids["positive"] & ids["negative"]
    excluded = {"removed": shared, "kept": set[int]()}
    return {
        (pool, treatment): sorted(ids[pool] - excluded[treatment])
        for pool in POLES
        for treatment in SHARED_TREATMENTS
    }


def generate_on_faces(
    model: Multimodal, task: PoemConfig, faces: pd.DataFrame, token_pools: TokenPools, answer_log: AnswerLog
) -> pd.DataFrame:
    """Generate a poem about each face unless the log has it, and score it for each token pool.

    Returns:
        One row per face: `id`, `group`, `text` (the poem), `tokens` (number of generated tokens, with the end
        token), and a score for each pool, such as `positive_removed`: the mean over generation steps of the
        mean log-probability of the pool's token ids, in nats; NaN for an empty pool.
    """
    named_pools = {f"{pool}_{treatment}": ids for (pool, treatment), ids in token_pools.items()}
    nonempty_pools = {name: ids for name, ids in named_pools.items() if ids}
    keys = [fingerprint([task.image_prompt, digest, task.most, nonempty_pools]) for digest in faces["sha256"]]
    paths = [Path(path) for path in faces["path"]]
    prompts = [task.image_prompt] * len(faces)
    poems = _generate_missing(model, prompts, paths, keys, task.most, answer_log, token_pools=nonempty_pools)
    table = faces[["id", "group"]].assign(
        text=[poem["text"] for poem in poems], tokens=[len(poem["tokens"]) for poem in poems]
    )
    scores = {name: [poem["log_p"].get(name, math.nan) for poem in poems] for name in named_pools}
    return table.assign(**scores)


def note_reasoning(poems: Sequence[str]) -> list[str]:
    """Warn of poems that contain reasoning; return a note with their number, or no note if none does."""
    if not (count := sum(map(has_reasoning, poems))):
        return []
    note = f"{count} of {len(poems)} poems contain reasoning, which is scored as part of the poem"
    log.warning("%s. Use a model that writes no reasoning", note)
    return [note]


def _generate_missing(
    model: Multimodal,
    prompts: Sequence[str],
    image_paths: Sequence[Path] | None,  # None for prompts without a picture
    keys: Sequence[str],
    max_new_tokens: int,
    answer_log: AnswerLog,
    token_pools: Mapping[str, Sequence[int]],
) -> list[dict[str, Any]]:
    """Generate the poems that the log lacks, and log them as they arrive; return the poem of each key."""
    # Index of a prompt for each missing key; two faces may share a picture, and thus a key.
    missing = list({key: index for index, key in enumerate(keys) if key not in answer_log.known}.values())
    missing_paths = None if image_paths is None else [image_paths[index] for index in missing]
    missing_prompts = [prompts[index] for index in missing]
    batches = model.generate(
        missing_prompts, missing_paths, max_new_tokens=max_new_tokens, token_pools=token_pools
    )
    for batch in batches:
        answer_log.append({keys[missing[index]]: asdict(poem) for index, poem in batch.items()})
    return [answer_log.known[key] for key in keys]
