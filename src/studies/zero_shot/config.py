"""Schema of the zero-shot experiments."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.exps import ExpConfig
from src.configs.fields import number


@dataclass
class ZeroShotConfig(ExpConfig):
    """How often the word that is nearest to a scene is one of its own: what a projection costs.

    Attributes:
        tolerance: a word is a scene's own if their valences' ranks (0 to 1) differ by no more.
    """

    study: str = "zero_shot"
    targets: str = MISSING
    corpus: str = MISSING
    tolerance: float = number(0, 1)


CONFIGS = {"zero_shot": ZeroShotConfig}
