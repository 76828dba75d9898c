"""Track runs, parents, artifacts and provenance in MLflow, which nothing else in the project imports."""

from src.tracking.database import SQLITE
from src.tracking.history import NUMBER, Past, children, finished, next_number, past, sweeps
from src.tracking.run import JobRun, Run
from src.tracking.runs import Tracker
from src.tracking.tracking_server import Unreachable
