"""Poems about faces, and how likely words of feelings are in them (docs/methods.md, section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from src.errors import InputError
from src.generators.answer_log import Kept
from src.generators.multimodal import IMAGE, Multimodal
from src.storage.cache import fingerprint
from src.studies.poems.config import PoemConfig

WORD = "{word}"
POLES = ("positive", "negative")
SHARED = ("removed", "kept")

# Pool, and what is done with ids in both -> its ids, ascending.
Pools = dict[tuple[str, str], list[int]]


def checked(task: PoemConfig) -> None:
    """See that prompts have their places, and that both pools have words.

    Raises:
        InputError: they have not.
    """
    for name, prompt, place in (
        ("image_prompt", task.image_prompt, IMAGE),
        ("text_prompt", task.text_prompt, WORD),
    ):
        if prompt.count(place) != 1:
            raise InputError(f"task.{name}={prompt!r}: {place} must stand in it once.")
    if set(task.words) != set(POLES) or not all(
        words and all(word.strip() for word in words) for words in task.words.values()
    ):
        raise InputError("task.words: it must hold two lists of words, positive and negative.")


def is_poem(answer: Any) -> bool:
    """Whether something is a poem as `_write` keeps it."""
    return (
        isinstance(answer, dict)
        and isinstance(answer.get("text"), str)
        and isinstance(answer.get("tokens"), list)
        and isinstance(answer.get("log_p"), dict)
        and all(isinstance(token, int) for token in answer["tokens"])
        and all(isinstance(value, int | float) for value in answer["log_p"].values())
    )


def on_words(model: Multimodal, task: PoemConfig, kept: Kept) -> pd.DataFrame:
    """Poems on the words of feelings: `pool`, `word`, `text`, `ids` of the tokens that were generated.

    Args:
        model: writes them.
        task: words and prompt.
        kept: poems that are there already; new ones go there as they come.
    """
    words = [(pool, word) for pool in POLES for word in task.words[pool]]
    prompts = [task.text_prompt.replace(WORD, word) for _, word in words]
    keys = [fingerprint([prompt, task.most]) for prompt in prompts]
    _write(model, prompts, None, keys, task.most, {}, kept)
    found = pd.DataFrame(words, columns=["pool", "word"])
    said = [kept.known[key] for key in keys]
    return found.assign(text=[one["text"] for one in said], ids=[one["tokens"] for one in said])


def pools(written: pd.DataFrame, special: set[int]) -> Pools:
    """Unique ids of the tokens of the poems on positive and on negative words.

    Args:
        written: see `on_words`.
        special: ids of tokens that are no text; they are in no pool.
    """
    ids = {
        pool: {number for row in written["ids"][written["pool"] == pool] for number in row} - special
        for pool in POLES
    }
    both = ids["positive"] & ids["negative"]
    without = {"removed": both, "kept": set[int]()}
    return {(pool, shared): sorted(ids[pool] - without[shared]) for pool in POLES for shared in SHARED}


def on_faces(
    model: Multimodal, task: PoemConfig, faces: pd.DataFrame, own: Pools, kept: Kept
) -> pd.DataFrame:
    """A poem about each face, and the score of each pool there.

    Args:
        model: writes them.
        task: prompt and length.
        faces: with `id`, `group`, `path` and `sha256`.
        own: see `pools`.
        kept: poems that are there already; new ones go there as they come.

    Returns:
        `id`, `group`, `text`, `tokens` (how many were generated, the one that ends the poem included) and of
        each pool a score ("positive_removed"): the mean over these steps of the mean log-probability of the
        pool's ids, in nats; NaN of an empty pool.
    """
    names = {f"{pool}_{shared}": ids for (pool, shared), ids in own.items()}
    asked = {name: ids for name, ids in names.items() if ids}
    keys = [fingerprint([task.image_prompt, digest, task.most, asked]) for digest in faces["sha256"]]
    shown = [Path(path) for path in faces["path"]]
    _write(model, [task.image_prompt] * len(faces), shown, keys, task.most, asked, kept)
    said = [kept.known[key] for key in keys]
    found = faces[["id", "group"]].assign(
        text=[one["text"] for one in said], tokens=[len(one["tokens"]) for one in said]
    )
    scores = {name: [one["log_p"].get(name, math.nan) for one in said] for name in names}
    return found.assign(**scores)


def _write(
    model: Multimodal,
    prompts: Sequence[str],
    shown: Sequence[Path] | None,
    keys: Sequence[str],
    most: int,
    asked: Mapping[str, Sequence[int]],
    kept: Kept,
) -> None:
    # Of each key once: two faces may be one picture.
    left = list({key: place for place, key in enumerate(keys) if key not in kept.known}.values())
    own = None if shown is None else [shown[place] for place in left]
    for found in model.written([prompts[place] for place in left], own, most=most, pools=asked):
        answers: dict[str, Any] = {keys[left[place]]: asdict(one) for place, one in found.items()}
        kept.keep(answers)
