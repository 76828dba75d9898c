"""Schema of the audits of implicit bias."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.exps import ExpConfig
from src.configs.fields import one_of


@dataclass
class AuditConfig(ExpConfig):
    """Which groups' faces an encoder finds nearer to prompts (docs/methods.md, section 3).

    Attributes:
        attribute: its name in the results.
        template: of the prompts, `{}` in place of the word.
        sets: name -> words; of several sets the mean is taken, and named by `attribute`.
        pairs: of a positive and a negative word, for the IAT.
        measure: what the null is of.
        groups: whose faces; null: all of them.
    """

    study: str = "implicit"
    attribute: str = MISSING
    template: str = MISSING
    sets: dict[str, list[str]] = MISSING
    pairs: list[list[str]] = field(default_factory=list)
    measure: str = one_of("cles", "iat", default="cles")
    groups: list[str] | None = None


CONFIGS = {"audit": AuditConfig}
