"""Directions of groups, projected out of vectors before an experiment (METHODS §3, "Debiasing")."""

from src.debias.phrases import Prompts, prompts
from src.debias.projections import project, projection, sides

__all__ = ["Prompts", "project", "projection", "prompts", "sides"]
