"""Define the schema of the zero-shot experiments."""

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.exps import ExpConfig
from src.configs.fields import bounded_number


@dataclass
class ZeroShotConfig(ExpConfig):
    """Settings of zero-shot accuracy: the share of scenes whose nearest word matches them.

    Attributes:
        targets: role of the images to classify (scenes).
        corpus: role of the texts that are the classes (words).
        tolerance: maximum difference of valence ranks (0 to 1) at which a word matches a scene.
    """

    study: str = "zero_shot"
    targets: str = MISSING
    corpus: str = MISSING
    tolerance: float = bounded_number(0, 1)


CONFIGS = {"zero_shot": ZeroShotConfig}
