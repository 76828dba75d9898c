"""open_clip's CLIP behind the project's protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from src.encoders.packed_text_tower import Packed
from src.encoders.precision import keep_projections, unit
from src.encoders.preprocessing import Halves, of_torchvision
from src.errors import InputError


class OpenClip(torch.nn.Module):
    """A CLIP of open_clip with its own preprocessing and tokeniser.

    Args:
        model: `open_clip.model.CLIP`.
        transform: from an RGB picture to pixels [3, H, W].
        tokenizer: open_clip's, made for the model's context length.
        name: for messages.
        precision: of the towers: fp32, bf16 or fp16. Projection and normalisation are float32.
    """

    def __init__(
        self, model: Any, transform: Any, tokenizer: Any, name: str, precision: str = "fp32"
    ) -> None:
        super().__init__()
        self.model = model
        self._precision = precision
        if precision != "fp32":
            keep_projections(model)
        self._packed = Packed.of(model)
        self._transform = transform
        self._tokenizer = tokenizer
        self._name = name

    def transform(self, picture: Image.Image) -> Float[Tensor, "3 height width"]:
        """Pixels as the model takes them."""
        pixels: Tensor = self._transform(picture)
        return pixels

    def halves(self) -> Halves | None:
        """`transform` in two halves."""
        return of_torchvision(self._transform)

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Token ids.

        Raises:
            InputError: a sentence does not fit the context length: cut off, it would lose its
                end-of-text token and with it its meaning.
        """
        tokens: Tensor = self._tokenizer(list(sentences))
        for row, needed in self._lengths(sentences, tokens):
            if needed > tokens.shape[1]:
                raise InputError(
                    f"{self._name}: {sentences[row]!r} needs {needed} tokens, the context holds "
                    f"{tokens.shape[1]}. Shorten or leave out the word."
                )
        return tokens

    def _lengths(self, sentences: Sequence[str], tokens: Tensor) -> Iterator[tuple[int, int]]:
        """Rows that may have been cut, and how many tokens each would need."""
        hub = getattr(self._tokenizer, "tokenizer", None)
        if hub is None:
            # CLIP's own: a row that ends in padding was not cut. Start and end of text come on top.
            for row in tokens[:, -1].nonzero().flatten().tolist():
                yield row, len(self._tokenizer.encode(sentences[row])) + 2
            return
        # Of others the last token does not tell: some pad with the end of text, some drop it.
        clips = self._tokenizer.tokenizer_mode == "clips"
        cleaned = [self._tokenizer.clean_fn(sentence) for sentence in sentences]
        for row, ids in enumerate(hub(cleaned, add_special_tokens=not clips).input_ids):
            yield row, len(ids) + 3 * clips

    def encode_images(self, pixels: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n width"]:
        """Unit vectors of images, float32."""
        return unit(self.model.encode_image, pixels, self._precision)

    def lengths(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """How many tokens of each sentence decide its vector: in a tower that is not causal, all."""
        if self._packed is None:
            return torch.full((len(tokens),), tokens.shape[1])
        return self._packed.ends(tokens) + 1

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Unit vectors of texts, float32."""
        return unit(self._packed or self.model.encode_text, tokens, self._precision)
