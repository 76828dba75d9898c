"""Define the schema of the tasks on poems."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.fields import number
from src.configs.generative import TaskConfig


@dataclass
class PoemConfig(TaskConfig):
    """Poems of a multimodal model about faces (docs/methods.md, section 3, "Multimodal language models").

    Attributes:
        image_prompt: prompt with `<image>` in place of the picture.
        text_prompt: prompt with `{word}` in place of a word; the token ids of these poems make up the pools.
        words: lists of `positive` and `negative` words.
        pool_texts: lists of `positive` and `negative` texts whose token ids make up the pools; empty for the
            model's own poems on `words`.
        most: maximum number of new tokens per poem.
        faces: maximum number of faces per group, drawn by seed; null for all.
        permutations: number of random partitions of two groups' faces, for the null.
        bootstrap: number of draws of faces, for intervals.
    """

    study: str = "poems"
    image_prompt: str = MISSING
    text_prompt: str = ""
    words: dict[str, list[str]] = field(default_factory=dict)
    pool_texts: dict[str, list[str]] = field(default_factory=dict)
    most: int = number(1)
    faces: int | None = number(2)
    permutations: int = number(0)
    bootstrap: int = number(0)


CONFIGS = {"poem": PoemConfig}
