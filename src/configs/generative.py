"""Schema of what generative models are asked."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.fields import number, one_of


@dataclass
class LlmConfig:
    """What every generative model has; `name` defaults to the YAML's."""

    name: str | None = None


@dataclass
class RecordedConfig(LlmConfig):
    """Answers that somebody else's run left: a csv of items with a column `response`.

    `name` defaults to the file's.
    """

    path: str = MISSING


@dataclass
class PlantedConfig(LlmConfig):
    """No model: answers whose leaning is known (`src.studies.subtler.planted`).

    Attributes:
        lean: probability of the stereotype, where else one of three options is drawn by lot.
    """

    lean: float = number(0, 1)


@dataclass
class CausalConfig(LlmConfig):
    """What every causal language model has.

    Attributes:
        batch_size: texts per forward pass.
        most: tokens of a free answer.
    """

    precision: str = one_of("fp32", "bf16", default="fp32")
    batch_size: int = number(1, default=64)
    most: int = number(1, default=32)


@dataclass
class WeightsConfig(LlmConfig):
    """What every model that others trained has.

    Attributes:
        id: owner/name on the hub, or a folder.
        revision: of the hub's repository: commit, branch or tag; empty: main.
        sha256: of the weights, as a run's tags say it; others are refused; empty: any.
        date: today's, YYYY-MM-DD, for a chat template that asks for it: the one that Llama's name themselves.
    """

    id: str = MISSING
    revision: str = ""
    sha256: str = ""
    date: str = "2024-07-26"


@dataclass
class HfConfig(WeightsConfig, CausalConfig):
    """A causal language model of transformers."""


@dataclass
class MultimodalConfig(LlmConfig):
    """What every model has that reads pictures and texts.

    Attributes:
        batch_size: pictures per forward pass.
    """

    precision: str = one_of("fp32", "bf16", default="fp32")
    batch_size: int = number(1, default=8)


@dataclass
class VlmHfConfig(WeightsConfig, MultimodalConfig):
    """A multimodal model of transformers: Idefics, SmolVLM, LLaVA and whatever its Auto classes read."""


@dataclass
class TinyVlmConfig(MultimodalConfig):
    """An Idefics3 of a few layers, untrained: shows that all runs, and knows nothing."""

    width: int = number(4)
    layers: int = number(1)
    heads: int = number(1)
    seed: int = number(0, default=0)


@dataclass
class TinyConfig(CausalConfig):
    """A Qwen2 of a few layers that reads bytes, untrained: shows that all runs, and knows nothing."""

    width: int = number(2)
    layers: int = number(1)
    heads: int = number(1)
    seed: int = number(0, default=0)


@dataclass
class ServerConfig(LlmConfig):
    """A model behind a server that speaks as OpenAI's does: vLLM, llama.cpp, Ollama and others.

    Attributes:
        url: up to `/v1`, or wherever `/chat/completions` follows.
        id: what the server calls the model.
        key: name of the environment's variable that holds the key; empty: none is sent.
        concurrency: questions in flight.
        retries: of a question that failed, after 1, 2, 4, … seconds, or when the server says.
        timeout: of an answer, in seconds.
        most: tokens of an answer; a model that thinks first needs hundreds.
        limit: field of the request that carries `most`; OpenAI's newer models refuse the usual one.
        temperature: 0 for the likeliest answer; null: none is sent, for models that refuse it.
    """

    url: str = MISSING
    id: str = MISSING
    key: str = "OPENAI_API_KEY"
    concurrency: int = number(1, 256, default=8)
    retries: int = number(0, default=5)
    timeout: float = number(0.01, default=120.0)
    most: int = number(1, default=32)
    limit: str = one_of("max_tokens", "max_completion_tokens", "none", default="max_tokens")
    temperature: float | None = number(0, 2, default=0.0)


@dataclass
class TaskConfig:
    """Fields of every task.

    Attributes:
        paper: name of the task in its paper.
        study: name of the study that it belongs to.
    """

    paper: str = MISSING
    study: str = MISSING
