"""Encode colours of pictures and letters of sentences: an encoder family in a single file."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from src.configs import EncoderConfig
from src.configs.fields import bounded_number
from src.encoders import Encoder, EncoderFamily

SIDE, CONTEXT, CODES = 8, 80, 128


@dataclass
class ColoursConfig(EncoderConfig):
    """Fields of the model."""

    width: int = bounded_number(2, default=16)  # of the vectors


class Colours(nn.Module):
    """Random projections of pixels, and of counts of letters."""

    def __init__(self, width):
        super().__init__()
        rng = torch.Generator().manual_seed(0)
        self.image = nn.Parameter(torch.randn(3 * SIDE * SIDE, width, generator=rng), requires_grad=False)
        self.text = nn.Parameter(torch.randn(CODES, width, generator=rng), requires_grad=False)

    def transform(self, picture):
        """Return the pixels of a small copy, [3, SIDE, SIDE]."""
        small = np.asarray(picture.resize((SIDE, SIDE)), dtype=np.float32)
        return torch.from_numpy(small).permute(2, 0, 1) / 255 - 0.5

    def split_preprocessing(self):
        """Return None: the preprocessing is not split."""

    def tokenize(self, sentences):
        """Return codes of letters, padded with zeros, [N, CONTEXT]."""
        rows = [[ord(letter) % CODES for letter in text[:CONTEXT]] for text in sentences]
        return torch.tensor([row + [0] * (CONTEXT - len(row)) for row in rows])

    def count_relevant_tokens(self, tokens):
        """Return the number of letters of each sentence."""
        return (tokens > 0).sum(dim=1)

    def encode_images(self, pixels):
        """Return unit vectors, [N, width]."""
        return nn.functional.normalize(pixels.flatten(1) @ self.image, dim=-1)

    def encode_texts(self, tokens):
        """Return unit vectors, [N, width]."""
        counts = nn.functional.one_hot(tokens, CODES).sum(dim=1).float()
        return nn.functional.normalize(counts[:, 1:] @ self.text[1:], dim=-1)


def encoder(config, accelerator):
    """Return the encoder; src adds the config, the accelerator and the version to its identity."""
    return Encoder(
        identity={"architecture": "random projections"},
        identify_weights=lambda: {"revision": "drawn", "sha256": "none: drawn with seed 0"},
        load=lambda: Colours(config.width).eval(),
    )


FAMILY = EncoderFamily(
    name="colours", config=ColoursConfig, encoder=encoder, pretraining=lambda config: "none"
)
