"""Runs, parents, artifacts and provenance in MLflow. Nothing else in the project imports it."""

from src.tracking.provenance import commit
from src.tracking.runs import SQLITE, Run, Tracker

__all__ = ["SQLITE", "Run", "Tracker", "commit"]
