"""Experiments: metrics applied to embeddings, analysis by analysis."""

from src.experiments.attributes import Corpus, Pool, corpus_of
from src.experiments.propagation import Result, check, run, unused

__all__ = ["Corpus", "Pool", "Result", "check", "corpus_of", "run", "unused"]
