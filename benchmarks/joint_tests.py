"""Time the tests of a report that join or compare the analyses of a sweep."""

import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.timing import MEMORY_UNIT, seconds_of
from src.report import load
from src.report.__main__ import find_sweep
from src.studies.propagation.differences import compare_groups, compare_models
from src.studies.propagation.estimates import JobEstimates
from src.studies.propagation.joint import joint_tests
from src.tracking import Tracker


def time_tests(database: Path) -> list[tuple[str, float, float]]:
    """Time each kind of test on the newest sweep in a database.

    Returns name, seconds, and the peak memory of the process so far (10^6 bytes), with that of the results.
    """
    tracker = Tracker(f"sqlite:///{database}", make=False)
    with tempfile.TemporaryDirectory() as copies:
        findings = load.load_merged(tracker, [find_sweep(tracker, "latest", "")], Path(copies))
        # Each test reads the estimates itself, as the first one of a report does.
        tests: dict[str, Callable[[], object]] = {
            "joint tests": lambda: joint_tests(findings),
            "equality of models": lambda: compare_models(findings, JobEstimates(findings)),
            "equality of groups": lambda: compare_groups(findings, JobEstimates(findings)),
        }
        return [(name, seconds_of(test), _peak()) for name, test in tests.items()]


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MEMORY_UNIT / 1e6
