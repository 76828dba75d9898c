"""Define the schema of propagation experiments."""

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.exps import ExpConfig
from src.configs.fields import number


@dataclass
class PropagationConfig(ExpConfig):
    """Settings of a propagation experiment: a pair of roles, one of images and one of texts."""

    study: str = "propagation"
    targets: str = MISSING  # role of the scored stimuli
    corpus: str = MISSING  # role of the stimuli to retrieve from
    reliability: bool = False  # true: correct rho for noise of the corpus, with 20 times the work
    intervene: bool = False  # true: measure what remains if what is measured is removed from the targets
    intervene_targets: int = number(0, default=200)  # maximum targets of each group for that; 0: all


CONFIGS = {"propagation": PropagationConfig}
