"""Track runs, their parents, artifacts and provenance in MLflow; no other package imports MLflow."""

from src.tracking.database import SQLITE
from src.tracking.history import (
    SWEEP_NUMBER,
    StoredRun,
    find_children,
    find_finished_jobs,
    find_next_number,
    find_run,
    find_sweeps,
)
from src.tracking.run import JobRun, Run
from src.tracking.run_tags import LIMIT_TAG
from src.tracking.runs import Tracker
from src.tracking.tracking_server import Unreachable
