"""Schema of the audits of So-B-IT."""

from __future__ import annotations

from dataclasses import dataclass, field

from src.configs.exps import ExpConfig
from src.configs.fields import one_of


@dataclass
class SobitConfig(ExpConfig):
    """Whose faces an encoder finds for the loaded words of a taxonomy (docs/methods.md, section 4).

    Attributes:
        measure: association (C), retrieval (composition of the top k) or strength (against frequent words).
        axes: of the faces' columns: race, gender, or both together.
    """

    study: str = "sobit"
    measure: str = one_of("association", "retrieval", "strength")
    axes: list[str] = field(default_factory=lambda: ["race", "gender", "both"])


CONFIGS = {"sobit": SobitConfig}
