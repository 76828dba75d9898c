"""Tokenise sentences for the small encoders: every word is a token."""

import re
import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

WORD = re.compile(r"\w+(?:['-]\w+)*|[^\w\s]")
# Number of tokens shared by the words that do not occur in training.
SPARE_TOKENS = 64


class Vocabulary:
    """A tokenizer whose tokens are the words of its training sentences; other words share spare tokens.

    Token 0 pads; the last two tokens start and end a sentence, as in CLIP.
    """

    def __init__(self, words: Sequence[str], context_length: int) -> None:
        self.words, self._context = list(words), context_length
        self.size = 1 + len(words) + SPARE_TOKENS + 2
        self._token_of_word = {word: number for number, word in enumerate(words, 1)}

    def encode(self, sentence: str) -> list[int]:
        """Return the tokens of a sentence, without start and end."""
        first_spare = 1 + len(self.words)
        tokens = self._token_of_word
        return [
            tokens[word] if word in tokens else first_spare + zlib.crc32(word.encode()) % SPARE_TOKENS
            for word in split(sentence)
        ]

    def __call__(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Return the tokens of sentences with start and end, cut to the context length or padded with 0."""
        rows = torch.zeros(len(sentences), self._context, dtype=torch.long)
        for row, sentence in zip(rows, sentences, strict=True):
            tokens = [self.size - 2, *self.encode(sentence), self.size - 1][: self._context]
            row[: len(tokens)] = torch.tensor(tokens)
        return rows


def split(sentence: str) -> list[str]:
    """Split a sentence into lower-case words and punctuation marks."""
    return WORD.findall(sentence.lower())
