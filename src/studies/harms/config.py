"""Define the schema of experiments on harmful classes."""

from dataclasses import dataclass

from src.configs.exps import ExpConfig


@dataclass
class HarmsConfig(ExpConfig):
    """Settings of an experiment that classifies faces into `classes` (docs/methods.md, section 7).

    Attributes:
        axis: attribute of the faces to compare by, or a combination such as race:age; null for the groups of
            their table. The classes of groups are those of the table's groups in any case.
        groups: names of the groups to compare; null for all.
    """

    study: str = "harms"
    axis: str | None = None
    groups: list[str] | None = None


CONFIGS = {"harms": HarmsConfig}
