"""Define the schema of audits of implicit bias."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.exps import ExpConfig
from src.configs.fields import one_of


@dataclass
class AuditConfig(ExpConfig):
    """Settings of an audit of the similarity of prompts to groups of faces (docs/methods.md, section 3).

    Attributes:
        attribute: name of the attribute in the results.
        template: template of the prompts, with `{}` in place of the word.
        sets: name of a set -> its words; several sets are averaged, and `attribute` names the mean.
        pairs: pairs of a positive and a negative word for the IAT; empty for no IAT.
        measure: statistic to compare with random partitions of the faces (its null).
        axis: attribute of the faces to compare by, or a combination such as race:age; null for the groups of
            their table.
        groups: names of the groups to compare; null for all.
    """

    study: str = "implicit"
    attribute: str = MISSING
    template: str = MISSING
    sets: dict[str, list[str]] = MISSING
    pairs: list[list[str]] = field(default_factory=list)
    measure: str = one_of("cles", "iat", default="cles")
    axis: str | None = None
    groups: list[str] | None = None


CONFIGS = {"audit": AuditConfig}
