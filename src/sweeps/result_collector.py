"""Collect results from worker processes, and mark lost jobs."""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from src.jobs.run_names import run_name
from src.jobs.runner import FAILED, FINISHED, REUSED, Outcome
from src.storage import results
from src.sweeps.job_batch import read_outcome
from src.sweeps.job_status import DatasetRecorder, SweepJob

log = logging.getLogger(__name__)


class ResultCollector:
    """Collector of the results that worker processes write to `folder`, the folder of the batches.

    `waiting` maps the numbers of jobs that have not ended to these jobs.
    """

    def __init__(
        self, folder: Path, entries: Sequence[SweepJob], recorders: Mapping[str, DatasetRecorder]
    ) -> None:
        self.folder, self._recorders = folder, recorders
        self.waiting = {entry.number: entry for entry in entries}
        self._lock = threading.Lock()

    def collect(self) -> None:
        """Record the jobs that ended since the last call."""
        with self._lock:
            # A change of mode makes a shared file system refresh its view of the folder.
            self.folder.chmod(self.folder.stat().st_mode)
            for number, entry in [*self.waiting.items()]:
                outcome = read_outcome(self.folder, number)
                if outcome is not None:
                    self._record(entry, outcome)

    def lose(self, numbers: Iterable[int], reason: str) -> None:
        """Mark jobs whose process died as failed, and close their runs, unless these finished."""
        self.collect()
        lost = [self.waiting[number] for number in numbers if number in self.waiting]
        self._close(lost, reason, failed=True)

    def stop(self, reason: str) -> None:
        """Record the jobs that ended, and close the runs of all others, which are not continued."""
        self.collect()
        self._close([*self.waiting.values()], reason, failed=False)

    def _close(self, entries: Sequence[SweepJob], reason: str, *, failed: bool) -> None:
        # Name of a run -> its id and status. A process may die after a job's run ended but before it writes
        # the outcome: then the store decides.
        runs: dict[str, tuple[str, str]] = {}
        for dataset, recorder in self._recorders.items():
            names = {run_name(entry.job) for entry in entries if entry.job.dataset == dataset}
            if names and recorder.parent:
                try:
                    runs |= recorder.tracker.end_children(recorder.parent, names, reason)
                except Exception as error:  # the store may be unreachable for a while
                    log.warning("cannot mark the runs of lost jobs yet: %r", error)
        with self._lock:
            for entry in entries:
                run, status = runs.get(run_name(entry.job), ("", ""))
                if entry.number not in self.waiting:
                    continue
                if status == "FINISHED":
                    self._record(entry, Outcome(FINISHED, run))
                elif failed:
                    self._record(entry, Outcome(FAILED, run, reason))

    def _record(self, entry: SweepJob, outcome: Outcome) -> None:
        analyses = None
        if outcome.status in (FINISHED, REUSED):
            try:
                analyses = results.read(entry.job.output)
            except OSError as error:
                outcome = replace(outcome, status=FAILED, reason=f"its results cannot be read: {error}")
        del self.waiting[entry.number]
        log.info("#%d : %s: %s", entry.number, entry.job.label, outcome.status.replace("_", " "))
        self._recorders[entry.job.dataset].record(entry, outcome, analyses)
