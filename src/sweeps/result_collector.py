"""Jobs that other processes make, as the one sees them that waits: what came, what is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from src.sweeps import job_status, sweep
from src.sweeps.job_batch import Sent, answer

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)


class Awaited:
    """Answers that are waited for.

    Args:
        folder: of the parcels.
        sent: the jobs.
        whole: the sweep that they belong to.
    """

    def __init__(self, folder: Path, sent: Sequence[Sent], whole: sweep.Sweep) -> None:
        self.folder, self._whole = folder, whole
        self.waiting = {one.number: one for one in sent}
        self._found: dict[int, tuple[Sent, job_status.Outcome, pd.DataFrame | None]] = {}
        self._before = {name: len(part.outcomes) for name, part in whole.parts.items()}
        self._lock = threading.Lock()

    def look(self) -> None:
        """Take the answers that came since."""
        with self._lock:
            # A shared file system looks again at what changes hands.
            self.folder.chmod(self.folder.stat().st_mode)
            for number, one in [*self.waiting.items()]:
                outcome = answer(self.folder, number)
                if outcome is not None:
                    self._take(one, outcome)

    def lose(self, numbers: Iterable[int], reason: str) -> None:
        """Give up jobs whose process is gone: their runs are marked as killed, and they count as failed."""
        self.look()
        lost = [self.waiting[number] for number in numbers if number in self.waiting]
        for one, run, finished in self._ended(lost, reason):
            self._say(one, run, "" if finished else reason)

    def stop(self, reason: str) -> None:
        """Take what came, and mark the runs of all others as killed: nobody makes these any more."""
        self.look()
        for one, run, finished in self._ended([*self.waiting.values()], reason):
            if finished:
                self._say(one, run, "")

    def _ended(self, lost: Sequence[Sent], reason: str) -> list[tuple[Sent, str, bool]]:
        """Jobs that have not answered, with the ids of their runs, if any, and whether these finished.

        A process can be gone between the end of a job's run and its answer: then the store knows better.
        """
        runs: dict[str, tuple[str, str]] = {}
        for dataset, part in self._whole.parts.items():
            names = {one.job.label for one in lost if one.job.dataset == dataset}
            if names and part.parent:
                try:
                    runs |= part.tracker.end(part.parent, names, reason)
                except Exception as error:  # the store may be out of reach for a while
                    log.warning("runs that nobody makes any more cannot be marked now: %r", error)
        known = [runs.get(one.job.label, ("", "")) for one in lost]
        return [(one, run, status == "FINISHED") for one, (run, status) in zip(lost, known, strict=True)]

    def _say(self, one: Sent, run: str, reason: str) -> None:
        """Answer for a job: finished, or failed for a reason."""
        status = job_status.FAILED if reason else job_status.FINISHED
        asked = " ".join(one.overrides)
        with self._lock:
            if one.number in self.waiting:
                self._take(one, job_status.Outcome(status, run, reason, asked, one.job.columns))

    def close(self) -> None:
        """Put the jobs that ended in the order of the sweep, with what they found."""
        from src.storage import results

        for dataset, part in self._whole.parts.items():
            own = [self._found[number] for number in sorted(self._found)]
            own = [found for found in own if found[0].job.dataset == dataset]
            part.outcomes[self._before[dataset] :] = [outcome for _, outcome, _ in own]
            for one, _, analyses in own:
                if analyses is not None:
                    part.analyses.append(analyses)
                    part.folders[one.job.config_hash] = one.job.output / results.FOLDER

    def _take(self, one: Sent, outcome: job_status.Outcome) -> None:
        from src.storage import results

        analyses = None
        if outcome.status in (job_status.FINISHED, job_status.TAKEN_OVER):
            try:
                analyses = results.read(one.job.output)
            except OSError as error:
                reason = f"its results cannot be read: {error}"
                outcome = replace(outcome, status=job_status.FAILED, reason=reason)
        del self.waiting[one.number]
        self._found[one.number] = (one, outcome, analyses)
        log.info("#%d : %s: %s", one.number, one.job.label, outcome.status.replace("_", " "))
        part = self._whole.parts[one.job.dataset]
        part.outcomes.append(outcome)
        job_status.note(part)
