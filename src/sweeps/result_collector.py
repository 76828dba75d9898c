"""Collector of results from other processes: record jobs that ended, and mark lost ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from src.jobs.runner import FAILED, FINISHED, TAKEN_OVER, Outcome
from src.storage import results
from src.sweeps.job_batch import read_outcome
from src.sweeps.job_status import Part, SweepJob

log = logging.getLogger(__name__)


class ResultCollector:
    """Results that other processes are to deliver.

    Args:
        folder: folder of the batches.
        entries: jobs that were sent.
        parts: dataset -> its jobs.

    Attributes:
        waiting: number -> each job that has not ended.
    """

    def __init__(self, folder: Path, entries: Sequence[SweepJob], parts: Mapping[str, Part]) -> None:
        self.folder, self._parts = folder, parts
        self.waiting = {entry.number: entry for entry in entries}
        self._lock = threading.Lock()

    def collect(self) -> None:
        """Record the jobs that ended since."""
        with self._lock:
            # A shared file system looks again at what changes hands.
            self.folder.chmod(self.folder.stat().st_mode)
            for number, entry in [*self.waiting.items()]:
                outcome = read_outcome(self.folder, number)
                if outcome is not None:
                    self._record(entry, outcome)

    def lose(self, numbers: Iterable[int], reason: str) -> None:
        """Count jobs whose process is gone as failed, and close their runs, unless these finished."""
        self.collect()
        lost = [self.waiting[number] for number in numbers if number in self.waiting]
        self._close(lost, reason, failed=True)

    def stop(self, reason: str) -> None:
        """Record the jobs that ended, and close the runs of all others: nobody runs these any more."""
        self.collect()
        self._close([*self.waiting.values()], reason, failed=False)

    def _close(self, lost: Sequence[SweepJob], reason: str, *, failed: bool) -> None:
        # A process can be gone between the end of a job's run and its outcome: then the store knows better.
        runs: dict[str, tuple[str, str]] = {}
        for dataset, part in self._parts.items():
            labels = {entry.job.label for entry in lost if entry.job.dataset == dataset}
            if labels and part.parent:
                try:
                    runs |= part.tracker.end(part.parent, labels, reason)
                except Exception as error:  # the store may be out of reach for a while
                    log.warning("runs that nobody makes any more cannot be marked now: %r", error)
        with self._lock:
            for entry in lost:
                run, status = runs.get(entry.job.label, ("", ""))
                if entry.number not in self.waiting:
                    continue
                if status == "FINISHED":
                    self._record(entry, Outcome(FINISHED, run))
                elif failed:
                    self._record(entry, Outcome(FAILED, run, reason))

    def _record(self, entry: SweepJob, outcome: Outcome) -> None:
        analyses = None
        if outcome.status in (FINISHED, TAKEN_OVER):
            try:
                analyses = results.read(entry.job.output)
            except OSError as error:
                outcome = replace(outcome, status=FAILED, reason=f"its results cannot be read: {error}")
        del self.waiting[entry.number]
        log.info("#%d : %s: %s", entry.number, entry.job.label, outcome.status.replace("_", " "))
        self._parts[entry.job.dataset].record(entry, outcome, analyses)
