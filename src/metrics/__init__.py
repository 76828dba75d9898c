"""Pure functions on tensors: association, retrieval, correlation. They know no model and no file."""

from src.metrics.association import EmbeddingAssociation, eat, sc_eat
from src.metrics.correlation import Correlation, spearman
from src.metrics.retrieval import mean_outcome, top_k
from src.metrics.similarity import similarity

__all__ = [
    "Correlation",
    "EmbeddingAssociation",
    "eat",
    "mean_outcome",
    "sc_eat",
    "similarity",
    "spearman",
    "top_k",
]
