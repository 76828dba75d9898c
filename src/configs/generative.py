"""Schema of what generative models are asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.fields import number, one_of


@dataclass
class LlmConfig:
    """What every generative model has; `name` defaults to the YAML's."""

    name: str | None = None


@dataclass
class HfConfig(LlmConfig):
    """A causal language model of transformers: owner/name on the hub, or a folder.

    Attributes:
        revision: of the hub's repository: commit, branch or tag; empty: main.
        batch_size: texts per forward pass.
        max_new_tokens: of a free answer.
    """

    id: str = MISSING
    revision: str = ""
    precision: str = one_of("fp32", "bf16", default="fp32")
    batch_size: int = number(1, default=32)
    max_new_tokens: int = number(1, default=32)


@dataclass
class TinyConfig(LlmConfig):
    """A Qwen2 of a few layers, untrained, made on the spot: shows that all runs, knows nothing."""

    width: int = number(8)
    layers: int = number(1)
    heads: int = number(1)
    seed: int = number(0, default=0)
    precision: str = one_of("fp32", "bf16", default="fp32")
    batch_size: int = number(1, default=32)
    max_new_tokens: int = number(1, default=32)


@dataclass
class RecordedConfig(LlmConfig):
    """Answers that somebody else's run left: a csv of items with a column `response`."""

    path: str = MISSING


@dataclass
class TaskConfig:
    """What every task has."""

    paper: str = MISSING


@dataclass
class SubtlerConfig(TaskConfig):
    """Which of three options completes a sentence (METHODS §5).

    Attributes:
        language: of the question, and of the domains.
        path: items in the published layout; null: composed of the domains.
        domains: names of YAMLs in conf/domain/LANGUAGE.
        count: of items composed of each domain.
        stereotype: what that column of the file holds: the option that a stereotype calls for
            (`by_polarity`), or always the positive one (`positive`), which is then put right beside it.
        question: `{context}`, `{first}`, `{second}` and `{third}` in their places.
    """

    language: str = one_of("en", "zh")
    path: str | None = None
    domains: list[str] = field(default_factory=list)
    count: int = number(12, default=300)
    stereotype: str = one_of("by_polarity", "positive", default="by_polarity")
    question: str = MISSING
