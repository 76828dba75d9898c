"""Runs, parents, artifacts and provenance in MLflow. Nothing else in the project imports it."""

from src.tracking.history import Past, children, finished, past, sweeps
from src.tracking.provenance import commit, versions
from src.tracking.runs import SQLITE, Run, Tracker

__all__ = ["SQLITE", "Past", "Run", "Tracker", "children", "commit", "finished", "past", "sweeps", "versions"]
