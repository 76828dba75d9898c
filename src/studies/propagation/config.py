"""Schema of the experiments of propagation."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.exps import ExpConfig


@dataclass
class PropagationConfig(ExpConfig):
    """A pair of roles of opposite modality: bias of the representation and of what is retrieved."""

    study: str = "propagation"
    targets: str = MISSING
    corpus: str = MISSING


CONFIGS = {"propagation": PropagationConfig}
