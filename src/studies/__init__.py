"""Experiments: metrics applied to embeddings, analysis by analysis."""

from src.studies.kinds import Found, check, prompts, roles, run, study, unused

__all__ = ["Found", "check", "prompts", "roles", "run", "study", "unused"]
