"""Define the schema of propagation experiments."""

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.exps import ExpConfig
from src.configs.fields import bounded_number


@dataclass
class PropagationConfig(ExpConfig):
    """Settings of a propagation experiment on two roles, an image role and a text role."""

    study: str = "propagation"
    targets: str = MISSING  # role of the scored stimuli
    corpus: str = MISSING  # role of the stimuli to retrieve from
    reliability: bool = False  # true: correct rho for the reliability of both scores; takes 20 times as long
    intervene: bool = False  # true: measure the level that remains without the measured directions
    intervene_targets: int = bounded_number(0, default=200)  # targets per group to intervene on; 0: all


CONFIGS = {"propagation": PropagationConfig}
