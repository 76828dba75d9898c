"""open_clip's CLIP behind the project's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from src.errors import InputError


class OpenClip(torch.nn.Module):
    """A CLIP of open_clip with its own preprocessing and tokeniser.

    Args:
        model: `open_clip.model.CLIP`.
        transform: from an RGB picture to pixels [3, H, W].
        tokenizer: open_clip's, made for the model's context length.
        name: for messages.
    """

    def __init__(self, model: Any, transform: Any, tokenizer: Any, name: str) -> None:
        super().__init__()
        self.model = model
        self._transform = transform
        self._tokenizer = tokenizer
        self._name = name

    def transform(self, picture: Image.Image) -> Float[Tensor, "3 height width"]:
        """Pixels as the model takes them."""
        pixels: Tensor = self._transform(picture)
        return pixels

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Token ids.

        Raises:
            InputError: a sentence does not fit the context length: cut off, it would lose its
                end-of-text token and with it its meaning.
        """
        tokens: Tensor = self._tokenizer(list(sentences))
        full = tokens[:, -1] != 0
        for row in full.nonzero().flatten().tolist():
            needed = len(self._tokenizer.encode(sentences[row])) + 2
            if needed > tokens.shape[1]:
                raise InputError(
                    f"{self._name}: {sentences[row]!r} needs {needed} tokens, the context holds "
                    f"{tokens.shape[1]}. Shorten or leave out the word."
                )
        return tokens

    def encode_images(self, pixels: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n width"]:
        """Unit vectors of images, float32."""
        return _unit(self.model.encode_image(pixels))

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Unit vectors of texts, float32."""
        return _unit(self.model.encode_text(tokens))


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
