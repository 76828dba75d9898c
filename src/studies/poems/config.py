"""Schema of the tasks on poems."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.fields import number
from src.configs.generative import TaskConfig


@dataclass
class PoemConfig(TaskConfig):
    """What a multimodal model writes about faces (docs/methods.md, section 3, "Multimodal language models").

    Attributes:
        image_prompt: with `<image>` in the picture's place.
        text_prompt: with `{word}` in a word's place; what a model writes on them are the pools of tokens.
        words: `positive` and `negative` ones.
        most: new tokens of a poem.
        faces: of each group at most, drawn by seed; null: all.
        permutations: random partitions of two groups' faces, for the null.
        bootstrap: draws of faces, for intervals.
    """

    study: str = "poems"
    image_prompt: str = MISSING
    text_prompt: str = MISSING
    words: dict[str, list[str]] = field(default_factory=dict)
    most: int = number(1)
    faces: int | None = number(2)
    permutations: int = number(0)
    bootstrap: int = number(0)


CONFIGS = {"poem": PoemConfig}
