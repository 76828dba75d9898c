"""Adapt open_clip's CLIP to the protocol of encoders."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from src.encoders.packed_text_tower import Packed
from src.encoders.precision import keep_projections, unit
from src.encoders.preprocessing import Halves, split_torchvision
from src.errors import InputError


class OpenClip(torch.nn.Module):
    """A CLIP of open_clip with its preprocessing (picture -> pixels [3, H, W]) and tokenizer.

    The precision (fp32, bf16 or fp16) is that of the towers; projection and normalisation are float32.
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
        self._transform, self._tokenizer, self._name = transform, tokenizer, name

    def transform(self, picture: Image.Image) -> Float[Tensor, "3 height width"]:
        """Return the input pixels of a picture."""
        pixels: Tensor = self._transform(picture)
        return pixels

    def halves(self) -> Halves | None:
        """Split `transform` into resizing to bytes and normalising; None if it has other steps."""
        return split_torchvision(self._transform)

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Return token ids; raise `InputError` if a sentence exceeds the context length.

        Truncation would remove the end-of-text token, whose vector represents the sentence.
        """
        tokens: Tensor = self._tokenizer(list(sentences))
        for row, needed in self._needed_tokens(sentences, tokens):
            if needed > tokens.shape[1]:
                raise InputError(
                    f"{self._name}: {sentences[row]!r} needs {needed} tokens, the context holds "
                    f"{tokens.shape[1]}. Shorten or leave out the word."
                )
        return tokens

    def _needed_tokens(self, sentences: Sequence[str], tokens: Tensor) -> Iterator[tuple[int, int]]:
        """Yield rows that may have been truncated, and the number of tokens that each needs."""
        inner = getattr(self._tokenizer, "tokenizer", None)  # tokenizer of transformers, if any
        if inner is None:
            # CLIP's tokenizer: a row that ends in padding was not truncated. Add start and end of text.
            for row in tokens[:, -1].nonzero().flatten().tolist():
                yield row, len(self._tokenizer.encode(sentences[row])) + 2
            return
        # With others the last token is not conclusive: some pad with the end of text, some drop it.
        # In the mode "clips", open_clip adds three tokens itself: start, end and class.
        clips = self._tokenizer.tokenizer_mode == "clips"
        cleaned = [self._tokenizer.clean_fn(sentence) for sentence in sentences]
        for row, ids in enumerate(inner(cleaned, add_special_tokens=not clips).input_ids):
            yield row, len(ids) + 3 * clips

    def encode_images(self, pixels: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of images, float32."""
        return unit(self.model.encode_image, pixels, self._precision)

    def lengths(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return how many tokens of each sentence affect its vector; all unless the text tower is causal."""
        if self._packed is None:
            return torch.full((len(tokens),), tokens.shape[1])
        return self._packed.ends(tokens) + 1

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of texts, float32."""
        return unit(self._packed or self.model.encode_text, tokens, self._precision)
