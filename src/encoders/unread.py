"""Find texts that a tokenizer of transformers does not read whole."""

from collections.abc import Mapping, Sequence
from typing import Any

# Why a text is not read whole: it has a token that the tokenizer does not know, or exceeds the context.
UNKNOWN, TOO_LONG = "unknown", "too long"


def find_unread(
    tokenizer: Any, texts: Sequence[str], context: int, n_added: int | None = None
) -> dict[int, str]:
    """Find texts with a token that a tokenizer does not know, or with more tokens than the context holds.

    Args:
        tokenizer: tokenizer of transformers.
        texts: texts as the tokenizer gets them.
        context: number of tokens that the context holds.
        n_added: number of tokens that are added to those of a text; None: as the tokenizer does.

    Returns:
        Index of a text that is not read whole -> `UNKNOWN` or `TOO_LONG`.
    """
    # Without special tokens: CLIP's token of unknown characters also ends a text.
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    unknown_id = tokenizer.unk_token_id
    unknown = {index: UNKNOWN for index, ids in enumerate(rows) if unknown_id in ids}
    if n_added is None:
        lengths = [*map(len, tokenizer(list(texts))["input_ids"])]
    else:
        lengths = [len(ids) + n_added for ids in rows]
    return {**unknown, **find_too_long(dict(enumerate(lengths)), context)}


def find_too_long(lengths: Mapping[int, int], context: int) -> dict[int, str]:
    """Find texts with more tokens than the context holds: index -> `TOO_LONG`."""
    return {index: TOO_LONG for index, length in lengths.items() if length > context}
