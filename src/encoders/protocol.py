"""Protocols of encoders and of their families."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from src import configs
from src.stimuli import Table

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


@dataclass(frozen=True)
class Training:
    """Training of a family on the dataset that it is run on.

    Attributes:
        encoder: (cfg, tables of all roles) -> encoder, trained if its checkpoint is not stored.
        blank: (config) -> network before its training.
    """

    encoder: Callable[[configs.RunConfig, Mapping[str, Table]], Encoder]
    blank: Callable[[Any], Network]


@dataclass(frozen=True)
class EncoderFamily:
    """Encoders of one kind: the questions that the rest of the house asks them.

    Attributes:
        name: name of the family, as in /schema/NAME and below `encoders` in `src/versions.yaml`.
        config: its config class.
        pretraining: (config) -> short name of the data that the weights were trained on.
        encoder: (config, accelerator) -> encoder, its weights not yet read; None if the dataset trains it, or
            if there are vectors only.
        training: training on the dataset of the job.
        files: (config) -> files of weights that others trained, fetched if they are not cached.
        several: (config, role) -> True if an item of the role has several vectors.
        facts: (config) -> size, cost and accuracy, as far as they are known.
        default_name: (config, choice of the YAML) -> name for display.
        version: of a family that is defined elsewhere; raise it when its vectors change.
    """

    name: str
    config: type[configs.ModelConfig]
    pretraining: Callable[[Any], str]
    encoder: Callable[[Any, str], Encoder] | None = None
    training: Training | None = None
    files: Callable[[Any], Sequence[Path]] = lambda _: ()
    several: Callable[[Any, str], bool] = lambda *_: False
    facts: Callable[[Any], dict[str, float]] = lambda _: {}
    default_name: Callable[[Any, str], str] = lambda _, choice: choice
    version: int = 1


def family_of(model: configs.ModelConfig) -> EncoderFamily:
    """Return the family that a model belongs to.

    Raises:
        InputError: there is no family of that name.
    """
    known = {name: place for name, (_, place) in configs.FAMILIES.items()}
    family: EncoderFamily = configs.registry.load("model.family", model.family, known, EncoderFamily)
    return family
