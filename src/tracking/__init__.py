"""Runs, parents, artifacts and provenance in MLflow. Nothing else in the project imports it."""

from src.tracking.history import NUMBER, Past, children, finished, next_number, past, sweeps
from src.tracking.provenance import commit, versions
from src.tracking.runs import SQLITE, Run, Tracker

__all__ = [
    "NUMBER",
    "SQLITE",
    "Past",
    "Run",
    "Tracker",
    "children",
    "commit",
    "finished",
    "next_number",
    "past",
    "sweeps",
    "versions",
]
