"""Experiments: metrics applied to embeddings, analysis by analysis."""

from src.experiments.attributes import Corpus, Pool, corpus_of
from src.experiments.kinds import Found, check, prompts, roles, run, study, unused

__all__ = ["Corpus", "Found", "Pool", "check", "corpus_of", "prompts", "roles", "run", "study", "unused"]
