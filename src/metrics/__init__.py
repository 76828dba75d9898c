"""Pure functions on tensors: association, retrieval, correlation. They know no model and no file."""

from src.metrics.association import EmbeddingAssociation, eat, sc_eat
from src.metrics.bootstrap import interval, weighted_spearman
from src.metrics.correlation import Correlation, auc, spearman, spearman_columns
from src.metrics.retrieval import mean_outcome, top_k
from src.metrics.similarity import similarity

__all__ = [
    "Correlation",
    "EmbeddingAssociation",
    "auc",
    "eat",
    "interval",
    "mean_outcome",
    "sc_eat",
    "similarity",
    "spearman",
    "spearman_columns",
    "top_k",
    "weighted_spearman",
]
