"""Schema of the models."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from src.configs.fields import number, one_of


@dataclass
class ModelConfig:
    """Fields of every model.

    Attributes:
        name: name for display; defaults to the YAML's.
        family: name of its family, or `module:attribute` of a family that is defined elsewhere.
    """

    name: str | None = None
    family: str = MISSING
    batch_size: int = number(1, default=256)

    @property
    def precomputed(self) -> Path | None:
        """Return the folder of vectors and tables that others made; None if an encoder embeds the dataset."""
        return None


@dataclass
class EncoderConfig(ModelConfig):
    """A model that embeds; projection, normalisation and similarity are float32 in any precision."""

    precision: str = one_of("fp32", "bf16", "fp16", default="fp32")


@dataclass
class ToyConfig(EncoderConfig):
    """A small CLIP, trained on the captions of the dataset that it is run on."""

    family: str = one_of("toy", default="toy")
    image_size: int = number(8)
    patch_size: int = number(1)
    width: int = number(1)
    layers: int = number(1)
    heads: int = number(1)
    embed_dim: int = number(1)
    context_length: int = number(8)
    steps: int = number(0)  # 0: untrained
    pairs: int = number(2)
    learning_rate: float = number(0, 1)
    seed: int = number(0, default=0)


@dataclass
class PretrainedConfig(EncoderConfig):
    """An encoder whose weights others trained."""

    id: str = MISSING
    revision: str = ""  # of the hub's repository: commit, branch or tag; empty: main
    sha256: str = ""  # of the weights; others are refused; empty: any
    weights: str = one_of("pretrained", "random", default="pretrained")
    pretraining: str = ""  # short name of the training data; empty: as src/encoders/pretraining.csv has it


@dataclass
class OpenClipConfig(PretrainedConfig):
    """Any encoder of open_clip: architecture/weights, hf-hub:owner/name, or a folder."""

    family: str = one_of("open_clip", default="open_clip")


@dataclass
class Blip2Config(PretrainedConfig):
    """BLIP-2's image-text contrastive head: owner/name on the hub, or a folder."""

    family: str = one_of("blip2", default="blip2")
    pooling: str = one_of("max", "mean", default="max")


@dataclass
class PrecomputedConfig(ModelConfig):
    """Vectors that somebody else computed; `name` defaults to the folder's."""

    family: str = one_of("precomputed", default="precomputed")
    path: str = MISSING
    pretraining: str = ""  # short name of the data that the encoder was trained on; empty: unknown

    @property
    def precomputed(self) -> Path:
        """Return the folder of vectors and tables."""
        return Path(self.path)


@dataclass
class OtherEncoderConfig(EncoderConfig):
    """Encoder of a family that is defined elsewhere.

    Attributes:
        options: fields of the family's own config class.
    """

    options: dict[str, Any] = field(default_factory=dict)


# Name of a family, as in /schema/NAME -> its config class, and its FAMILY, imported when needed.
FAMILIES: dict[str, tuple[type[ModelConfig], str]] = {
    "toy": (ToyConfig, "src.encoders.toy:FAMILY"),
    "open_clip": (OpenClipConfig, "src.encoders.open_clip_weights:FAMILY"),
    "blip2": (Blip2Config, "src.encoders.blip2:FAMILY"),
    "precomputed": (PrecomputedConfig, "src.embeddings.precomputed_vectors:FAMILY"),
}
