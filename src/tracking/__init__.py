"""Runs, parents, artifacts and provenance in MLflow. Nothing else in the project imports it."""

from src.tracking.provenance import commit
from src.tracking.runs import Run, Tracker

__all__ = ["Run", "Tracker", "commit"]
