"""Runs, parents, artifacts and provenance in MLflow. Nothing else in the project imports it."""

from src.tracking.database import SQLITE
from src.tracking.history import NUMBER, Past, children, finished, next_number, past, sweeps
from src.tracking.provenance import commit, versions
from src.tracking.run import JobRun, Run
from src.tracking.runs import Tracker
from src.tracking.tracking_server import Unreachable
