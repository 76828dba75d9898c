"""Track runs, parents, artifacts and provenance in MLflow, which nothing else in the project imports."""

from src.tracking.database import SQLITE
from src.tracking.history import NUMBER, StoredRun, children, find_run, finished_jobs, next_number, sweeps
from src.tracking.run import JobRun, Run
from src.tracking.run_tags import LIMIT_TAG
from src.tracking.runs import Tracker
from src.tracking.tracking_server import Unreachable
