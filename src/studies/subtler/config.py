"""Schema of the tasks on subtler biases."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.fields import number, one_of
from src.configs.generative import TaskConfig


@dataclass
class SubtlerConfig(TaskConfig):
    """Which of three options completes a sentence (docs/methods.md, section 5).

    Attributes:
        path: items, a csv in the published columns; null: composed of the domains.
        language: folder of conf/domain that holds these.
        domains: names of its YAMLs, or paths of others.
        count: items composed of each, rounded down to a multiple of 12.
        stereotype: what that column of the items holds: the option that a stereotype calls for
            (`by_polarity`), or always the positive one (`positive`): then figures are given as published,
            and corrected.
        question: with `{context}`, `{first}`, `{second}` and `{third}` in their places.
        bootstrap: draws of templates, for intervals.
        max_unmatched: largest share of answers that may match no option; above it there is no τ, but a
            reason with examples.
    """

    study: str = "subtler"
    path: str | None = None
    language: str = MISSING
    domains: list[str] = MISSING
    count: int = number(12)
    stereotype: str = one_of("by_polarity", "positive")
    question: str = MISSING
    bootstrap: int = number(0)
    max_unmatched: float = number(0, 1, default=0.25)


CONFIGS = {"subtler": SubtlerConfig}
