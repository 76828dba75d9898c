"""Define the schema of the zero-shot experiments."""

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.exps import ExpConfig
from src.configs.fields import number


@dataclass
class ZeroShotConfig(ExpConfig):
    """Settings of zero-shot accuracy: the share of scenes whose nearest word matches them.

    Attributes:
        tolerance: maximum difference of valence ranks (0 to 1) at which a word matches a scene.
    """

    study: str = "zero_shot"
    targets: str = MISSING  # role of the scored stimuli
    corpus: str = MISSING  # role that holds the classes
    tolerance: float = number(0, 1)


CONFIGS = {"zero_shot": ZeroShotConfig}
