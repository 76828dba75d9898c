"""The protocol of every encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor


class Network(Protocol):
    """An encoder in memory: a torch module with its own preprocessing.

    Vectors are of unit length and float32, whatever precision the towers compute in.
    """

    def transform(self, picture: Image.Image) -> Tensor:
        """Pixels [3, H, W] of an RGB picture."""
        ...

    def tokenize(self, sentences: Sequence[str]) -> Tensor:
        """Token ids [N, context]."""
        ...

    def encode_images(self, pixels: Tensor) -> Tensor:
        """[N, D], or [N, Q, D] where an image has Q vectors."""
        ...

    def encode_texts(self, tokens: Tensor) -> Tensor:
        """[N, D]."""
        ...


@dataclass(frozen=True)
class Loaded:
    """An encoder in memory, and what a manifest says of its weights (`revision`, `sha256`)."""

    network: Network
    weights: Mapping[str, str]


@dataclass(frozen=True)
class Encoder:
    """An encoder that need not be in memory while its vectors are stored.

    Attributes:
        identity: all that decides its numbers, known without its weights; part of a store's key.
        load: reads the weights, or trains them.
    """

    identity: Mapping[str, Any]
    load: Callable[[], Loaded]
