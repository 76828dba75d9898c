"""Experiments: metrics applied to embeddings, analysis by analysis."""

from src.experiments.attributes import Pool, pools
from src.experiments.propagation import Result, check, run

__all__ = ["Pool", "Result", "check", "pools", "run"]
