"""Define the schema of So-B-IT audits."""

from dataclasses import dataclass, field

from src.configs.exps import ExpConfig
from src.configs.fields import one_of


@dataclass
class SobitConfig(ExpConfig):
    """Settings of an audit of the faces retrieved for loaded words (docs/methods.md, section 4).

    Attributes:
        measure: association (C), retrieval (composition of the top k) or strength (against frequent words).
        axes: how to group the faces: by columns of their table, or by combinations such as race:age; `both`
            is race:gender.
    """

    study: str = "sobit"
    measure: str = one_of("association", "retrieval", "strength")
    axes: list[str] = field(default_factory=lambda: ["race", "gender", "both"])


CONFIGS = {"sobit": SobitConfig}
