"""Define the schema of generative models and of their tasks."""

from dataclasses import dataclass
from typing import ClassVar

from omegaconf import MISSING

from src.configs.fields import bounded_number, one_of
from src.configs.servers import ApiConfig


@dataclass
class LlmConfig:
    """Fields of every generative model."""

    name: str | None = None  # name for display; null: the YAML's name


@dataclass
class RecordedConfig(LlmConfig):
    """Recorded answers: a csv of items with a column `response`."""

    path: str = MISSING  # csv file; its name is displayed if `name` is null


@dataclass
class PlantedConfig(LlmConfig):
    """Simulated answers of known bias, without a model (`src.studies.subtler.answers.simulate_answers`).

    Attributes:
        lean: probability of choosing the stereotype outright; otherwise, one of three options is drawn at
            random.
    """

    lean: float = bounded_number(0, 1)


@dataclass
class CausalConfig(LlmConfig):
    """Fields of every causal language model."""

    precision: str = one_of("fp32", "bf16", default="fp32")  # number format of weights and activations
    batch_size: int = bounded_number(1, default=64)  # texts per forward pass
    most: int = bounded_number(1, default=32)  # maximum number of tokens of a free answer


@dataclass
class WeightsConfig(LlmConfig):
    """Fields of every pretrained model.

    Attributes:
        date: date that chat templates insert as today's, YYYY-MM-DD; default: the fallback date in Llama's
            template.
    """

    id: str = MISSING  # owner/name on the hub, or a folder
    revision: str = ""  # commit, branch or tag of the hub's repository; empty: main
    sha256: str = ""  # expected SHA-256 of the weights (see a run's tags); empty: not checked
    date: str = "2024-07-26"


@dataclass
class HfConfig(WeightsConfig, CausalConfig):
    """A causal language model of transformers."""


@dataclass
class MultimodalConfig(LlmConfig):
    """Fields of every model that takes pictures and texts."""

    precision: str = one_of("fp32", "bf16", default="fp32")  # number format of weights and activations
    batch_size: int = bounded_number(1, default=8)  # pictures per forward pass


@dataclass
class VlmHfConfig(WeightsConfig, MultimodalConfig):
    """A multimodal model of transformers: Idefics, SmolVLM, LLaVA and others that its Auto classes load."""


@dataclass
class TinyVlmConfig(MultimodalConfig):
    """An untrained Idefics3 of a few layers, to show that everything runs."""

    width: int = bounded_number(4)  # dimensions of a layer
    layers: int = bounded_number(1)  # number of layers
    heads: int = bounded_number(1)  # attention heads per layer
    seed: int = bounded_number(0, default=0)  # random seed of the weights


@dataclass
class TinyConfig(CausalConfig):
    """An untrained byte-level Qwen2 of a few layers, to show that everything runs."""

    width: int = bounded_number(2)  # dimensions of a layer
    layers: int = bounded_number(1)  # number of layers
    heads: int = bounded_number(1)  # attention heads per layer
    seed: int = bounded_number(0, default=0)  # random seed of the weights


@dataclass
class ServerConfig(LlmConfig, ApiConfig):
    """A language model behind a server with OpenAI's API.

    Attributes:
        limit: request field for the token limit `most`; OpenAI's newer models refuse `max_tokens`. none: no
            limit is sent.
        temperature: 0 for the likeliest answer; null: not sent, for models that refuse the field.
    """

    group: ClassVar[str] = "llm"

    most: int = bounded_number(1, default=32)  # maximum tokens of an answer; a reasoning model needs hundreds
    limit: str = one_of("max_tokens", "max_completion_tokens", "none", default="max_tokens")
    temperature: float | None = bounded_number(0, 2, default=0.0)


@dataclass
class TaskConfig:
    """Fields of every task."""

    paper: str = MISSING  # name of the task in its paper
    study: str = MISSING  # name of its study
