"""Define the protocols of encoders and of their families."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from src import configs
from src.stimuli import Table
from src.storage.versions import declared_versions

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from src.encoders.preprocessing import SplitPreprocessing


class Network(Protocol):
    """A loaded encoder: a torch module with its preprocessing.

    Vectors are float32 and of unit length, whatever the precision of the towers. A network whose pixels keep
    the sizes of their pictures has an attribute `max_pictures=1`, the maximum number of pictures per batch.
    """

    def transform(self, picture: Image.Image) -> Tensor:
        """Return the pixels of an RGB picture: [3, H, W], or another shape that `encode_images` expects."""

    def split_preprocessing(self) -> SplitPreprocessing | None:
        """Split `transform` into resizing (uint8 pixels) and normalising; None if it has other steps."""

    def tokenize(self, sentences: Sequence[str]) -> Tensor:
        """Return token ids [N, context]."""

    def count_relevant_tokens(self, tokens: Tensor) -> Tensor:
        """Return the number of leading tokens that affect each sentence's vector, [N]; others can be cut."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return vectors [N, D], or [N, Q, D] if an image has Q vectors."""

    def encode_texts(self, tokens: Tensor) -> Tensor:
        """Return vectors [N, D]."""


@dataclass(frozen=True)
class Encoder:
    """Description of an encoder, with functions that load it if its vectors are not in the store.

    Attributes:
        identity: settings and versions that determine its vectors, besides its weights.
        identify_weights: () -> `revision` and `sha256` of its weights. Makes them available first: fetches
            them or, for a family with `training`, trains them if no checkpoint is stored. The key of stored
            vectors contains `identity` and `sha256`.
        load: () -> network with its weights loaded.
        find_unread: (texts) -> index of each text that the tokenizer does not read whole, as it has an
            unknown token or exceeds the context -> why (`src.encoders.unread`). Loads no weights. None:
            it cannot be found out.
        text_identity: settings that determine the vectors of its texts alone.
        in_language: (code of FLORES-200) -> the same encoder, whose tokenizer is told the language of texts;
            without a call they are in its default, English. None: its tokenizer needs no language.
    """

    identity: Mapping[str, Any]
    identify_weights: Callable[[], Mapping[str, str]]
    load: Callable[[], Network]
    find_unread: Callable[[Sequence[str]], Mapping[int, str]] | None = None
    text_identity: Mapping[str, str] = field(default_factory=dict)
    in_language: Callable[[str], Encoder] | None = None


@dataclass(frozen=True)
class EncoderFamily:
    """A kind of encoder, with the functions that open and describe encoders of this kind.

    Not to be confused with a family of models, which share architecture and training data (`name_family`).

    Attributes:
        name: name of the family, as in /schema/NAME and below `encoders` in `src/versions.yaml`.
        config: config class of the family; `(config)` below is an instance of it.
        pretraining: (config) -> short name of the data that the weights were trained on.
        encoder: (config, accelerator) -> pretrained encoder, weights not loaded; None for a family that is
            trained on the dataset or has only precomputed vectors.
        training: (cfg, tables of all roles) -> encoder trained on the job's dataset (its functions train it
            if its checkpoint is not stored); None for other families.
        untrained_network: (config) -> network before training, for a family with `training`.
        fetch_files: (config) -> files of pretrained weights, fetched if they are not cached.
        has_several_vectors: (config, role) -> whether an item of the role has several vectors.
        facts: (config) -> size, cost and accuracy (`catalogue.FACTS`), where known.
        size: (config) -> `parameters_millions` and `width` by its config file, if this is here; else empty.
        declared: (config) -> what the authors state about the training, where known: `filter` of the data,
            `pairs_seen` in millions, and `languages` of texts, codes separated by blanks or `multilingual`
            (`catalogue.declared_facts`).
        architecture: (config) -> name of the architecture, which several weights may share; default: the
            model's name.
        default_name: (config, name of its YAML file) -> name for display.
        instruction: fields of the config that state an instruction. They are part of the name of the
            protocol: another instruction makes another specification of the same model.
        version: version of a family defined outside this project; increase it when its vectors change.
    """

    name: str
    config: type[configs.ModelConfig]
    pretraining: Callable[[Any], str]
    encoder: Callable[[Any, str], Encoder] | None = None
    training: Callable[[configs.RunConfig, Mapping[str, Table]], Encoder] | None = None
    untrained_network: Callable[[Any], Network] | None = None
    fetch_files: Callable[[Any], Sequence[Path]] = lambda _: ()
    has_several_vectors: Callable[[Any, str], bool] = lambda *_: False
    facts: Callable[[Any], dict[str, float]] = lambda _: {}
    size: Callable[[Any], Mapping[str, str]] = lambda _: {}
    declared: Callable[[Any], Mapping[str, str]] = lambda _: {}
    architecture: Callable[[Any], str] = lambda config: str(config.name)
    default_name: Callable[[Any, str], str] = lambda _, choice: choice
    instruction: Sequence[str] = ()
    version: int = 1


def family_of(model: configs.ModelConfig) -> EncoderFamily:
    """Load the encoder family of a model; raise `InputError` if it does not exist."""
    paths = {name: path for name, (_, path) in configs.FAMILIES.items()}
    return configs.registry.load("model.family", model.family, paths, EncoderFamily)


def half_precision_versions(precision: str) -> dict[str, int]:
    """Return the declared version of half precision, which is in the keys of its vectors alone."""
    return {} if precision == "fp32" else declared_versions("encoders.half_precision")
