"""Define the schema of the tasks on poems."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.fields import bounded_number
from src.configs.generative import TaskConfig


@dataclass
class PoemConfig(TaskConfig):
    """Settings of poems that a multimodal model writes about faces (docs/methods.md, section 3).

    Attributes:
        image_prompt: prompt for a poem about a face, with `<image>` in place of the picture.
        text_prompt: prompt for a poem about a word, with `{word}` in place of the word; the tokens of these
            poems make up the positive and the negative pool, by which poems about faces are scored.
        words: lists of `positive` and `negative` words.
        pool_texts: lists of `positive` and `negative` texts whose tokens make up the pools; empty to use the
            model's poems on `words`.
        most: maximum length of a poem, in new tokens.
        faces: maximum number of faces per group, drawn by seed; null for all.
        permutations: number of random partitions of two groups' faces for the null.
        bootstrap: number of bootstrap samples of the faces for intervals.
    """

    study: str = "poems"
    image_prompt: str = MISSING
    text_prompt: str = ""
    words: dict[str, list[str]] = field(default_factory=dict)
    pool_texts: dict[str, list[str]] = field(default_factory=dict)
    most: int = bounded_number(1)
    faces: int | None = bounded_number(2)
    permutations: int = bounded_number(0)
    bootstrap: int = bounded_number(0)


CONFIGS = {"poem": PoemConfig}
