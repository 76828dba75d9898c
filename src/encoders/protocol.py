"""The protocol of every encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from src.encoders.preprocessing import Halves


class Network(Protocol):
    """An encoder in memory: a torch module with its own preprocessing.

    Vectors are of unit length and float32, whatever precision the towers compute in.
    """

    def transform(self, picture: Image.Image) -> Tensor:
        """Pixels [3, H, W] of an RGB picture."""
        ...

    def halves(self) -> Halves | None:
        """`transform` in two halves; None where its library's steps are of an unknown kind."""
        ...

    def tokenize(self, sentences: Sequence[str]) -> Tensor:
        """Token ids [N, context]."""
        ...

    def lengths(self, tokens: Tensor) -> Tensor:
        """How many tokens of each sentence decide its vector, [N]: those behind them may be cut off."""
        ...

    def encode_images(self, pixels: Tensor) -> Tensor:
        """[N, D], or [N, Q, D] where an image has Q vectors."""
        ...

    def encode_texts(self, tokens: Tensor) -> Tensor:
        """[N, D]."""
        ...


@dataclass(frozen=True)
class Encoder:
    """An encoder that need not be in memory while its vectors are stored.

    Attributes:
        identity: what decides its numbers besides the bytes of its weights.
        weights: `revision` and `sha256` of its weights; a toy whose checkpoint is not stored is
            trained for it. Part of a store's key, as `identity` is.
        load: reads the weights.
    """

    identity: Mapping[str, Any]
    weights: Callable[[], Mapping[str, str]]
    load: Callable[[], Network]
