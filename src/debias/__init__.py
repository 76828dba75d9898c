"""Project directions of groups out of vectors before an experiment (docs/methods.md, section 3)."""

from src.debias.phrases import Prompts, build_prompts
from src.debias.projections import compute_projection, project, select_projected_roles

__all__ = ["Prompts", "build_prompts", "compute_projection", "project", "select_projected_roles"]
