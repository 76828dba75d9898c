"""Define the schema of the models."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import MISSING

from src.configs.fields import bounded_number, one_of
from src.configs.servers import ApiConfig


@dataclass
class ModelConfig:
    """Fields of every model."""

    name: str | None = None  # name for display; null: the YAML's name
    family: str = MISSING  # name of its family, or `module:attribute` of a family defined elsewhere
    batch_size: int = bounded_number(1, default=256)  # pictures or texts per batch

    @property
    def precomputed(self) -> Path | None:
        """Return the folder of precomputed vectors and tables; None if an encoder embeds the dataset."""
        return None


@dataclass
class EncoderConfig(ModelConfig):
    """An encoder; projection, normalisation and similarity are float32 in any precision."""

    precision: str = one_of("fp32", "bf16", "fp16", default="fp32")  # number format of the network


@dataclass
class ToyConfig(EncoderConfig):
    """A small CLIP, trained on the captions of the dataset of its job."""

    family: str = one_of("toy", default="toy")
    image_size: int = bounded_number(8)  # width and height in pixels
    patch_size: int = bounded_number(1)  # width and height of a patch in pixels
    width: int = bounded_number(1)  # dimensions of a layer
    layers: int = bounded_number(1)  # number of layers per tower
    heads: int = bounded_number(1)  # attention heads per layer
    embed_dim: int = bounded_number(1)  # dimensions of a vector
    context_length: int = bounded_number(8)  # maximum number of tokens
    steps: int = bounded_number(0)  # steps of training; 0: untrained
    pairs: int = bounded_number(2)  # pictures with captions per step
    learning_rate: float = bounded_number(0, 1)  # peak learning rate
    seed: int = bounded_number(0, default=0)  # random seed of weights and captions


@dataclass
class GoldenConfig:
    """Published scores of texts for a picture, by which a model is verified; they change no vector.

    Attributes:
        kind: how the scores are computed: cosines; logits, with scale and bias of the checkpoint; softmax of
            the logits over the texts, or sigmoid of each.
    """

    picture: str = ""  # address of the picture; empty: no scores are stated
    sha256: str = ""  # SHA-256 of the picture; empty: not published
    texts: list[str] = field(default_factory=list)  # texts, each with a score
    kind: str = one_of("cosine", "logits", "softmax", "sigmoid", default="logits")
    scores: list[float] = field(default_factory=list)  # published score of each text
    tolerance: float = bounded_number(0, default=0.0)  # maximum difference
    source: str = ""  # address of the page or file that states the scores


@dataclass
class PretrainedConfig(EncoderConfig):
    """A pretrained encoder."""

    id: str = MISSING  # architecture/weights, owner/name on the hub, or a folder
    revision: str = ""  # commit, branch or tag of the hub's repository; empty: main
    sha256: str = ""  # expected SHA-256 of the weights (see a run's tags); empty: not checked
    weights: str = one_of("pretrained", "random", default="pretrained")  # random: for tests
    pretraining: str = ""  # short name of the training data; empty: as in src/encoders/pretraining.csv
    languages: list[str] = field(default_factory=list)  # codes; empty: as in src/encoders/pretraining.csv
    golden: GoldenConfig = field(
        default_factory=GoldenConfig
    )  # published scores, for python -m src.encoders verify


@dataclass
class OpenClipConfig(PretrainedConfig):
    """An encoder of open_clip: architecture/weights, hf-hub:owner/name, or a folder."""

    family: str = one_of("open_clip", default="open_clip")


@dataclass
class Blip2Config(PretrainedConfig):
    """BLIP-2's image-text contrastive head: owner/name on the hub, or a folder.

    Attributes:
        pooling: similarity of an image to a text: the maximum cosine over the image's vectors, or the cosine
            of their mean.
    """

    family: str = one_of("blip2", default="blip2")
    pooling: str = one_of("max", "mean", default="max")


@dataclass
class HfEncoderConfig(PretrainedConfig):
    """A dual encoder of transformers: owner/name on the hub, or a folder."""

    family: str = one_of("hf", default="hf")


@dataclass
class ServedConfig(ModelConfig, ApiConfig):
    """An encoder behind a server with OpenAI's `/v1/embeddings`: vLLM, infinity and others.

    Attributes:
        dialect: how pictures are sent: in the `messages` of a chat (vLLM), or as `input` with a `modality`
            (infinity).
        prompt: system message of each request; empty: none. Only with `messages`.
        picture_text: text after each picture; empty: none. Only with `messages`.
        padding: padding of texts, sent to vLLM: `max_length` for models trained with it, such as SigLIP;
            `none`: the field is not sent, and the server decides.
        revision: label that the user gives to the served weights, which the server does not identify; another
            label means another model.
    """

    group: ClassVar[str] = "model"

    family: str = one_of("served", default="served")
    dialect: str = one_of("messages", "input", default="messages")
    prompt: str = ""
    picture_text: str = ""
    padding: str = one_of("none", "max_length", default="none")
    max_edge: int = bounded_number(16, 4096, default=1024)  # maximum edge of a sent picture, pixels
    revision: str = ""
    pretraining: str = ""  # short name of the data that the encoder was trained on; empty: unknown
    answers: str = MISSING  # folder of the logs of received vectors


@dataclass
class SentenceTransformersConfig(PretrainedConfig):
    """A multimodal embedder of sentence-transformers: owner/name on the hub, or a folder.

    Attributes:
        pooling: pooling of the vectors of tokens: `modules`, as in modules.json; for a model without this
            file `lasttoken`, `cls` (the first token) or `mean`.
    """

    family: str = one_of("sentence_transformers", default="sentence_transformers")
    prompt: str | None = None  # instruction before each input; null: as `prompt_name`; empty: no instruction
    prompt_name: str | None = None  # name of an instruction in the model's files; null: the model's default
    truncate_dim: int | None = bounded_number(1, default=None)  # first dimensions to keep; null: as its files
    pooling: str = one_of("modules", "lasttoken", "mean", "cls", default="modules")


@dataclass
class PrecomputedConfig(ModelConfig):
    """Precomputed vectors; `name` defaults to the name of the folder."""

    family: str = one_of("precomputed", default="precomputed")
    path: str = MISSING  # folder of vectors and tables
    pretraining: str = ""  # short name of the data that the encoder was trained on; empty: unknown

    @property
    def precomputed(self) -> Path:
        """Return the folder of vectors and tables."""
        return Path(self.path)


@dataclass
class OtherEncoderConfig(EncoderConfig):
    """An encoder of a family defined elsewhere."""

    options: dict[str, Any] = field(default_factory=dict)  # fields of the family's config class


# Name of a family, as in /schema/NAME -> its config class, and the `module:attribute` of its FAMILY.
FAMILIES: dict[str, tuple[type[ModelConfig], str]] = {
    "toy": (ToyConfig, "src.encoders.toy:FAMILY"),
    "open_clip": (OpenClipConfig, "src.encoders.open_clip_weights:FAMILY"),
    "blip2": (Blip2Config, "src.encoders.blip2:FAMILY"),
    "hf": (HfEncoderConfig, "src.encoders.huggingface:FAMILY"),
    "served": (ServedConfig, "src.encoders.served:FAMILY"),
    "sentence_transformers": (SentenceTransformersConfig, "src.encoders.sentence_transformer:FAMILY"),
    "precomputed": (PrecomputedConfig, "src.embeddings.precomputed_vectors:FAMILY"),
}
