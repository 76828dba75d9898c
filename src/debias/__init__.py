"""Project directions of groups out of vectors before an experiment (docs/methods.md, section 3)."""

from src.debias.phrases import Prompts, prompts
from src.debias.projections import project, projected_roles, projection

__all__ = ["Prompts", "project", "projected_roles", "projection", "prompts"]
