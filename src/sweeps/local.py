"""Parcels made by processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from src.sweeps.result_collector import Awaited

LOOK = 0.5
# A process that is told to stop ends its runs first.
STOP = 60


def send(
    entry: str, given: Sequence[Sequence[str]], groups: Sequence[Sequence[int]], to: Awaited, at_once: int
) -> None:
    """Make every parcel in a process of its own.

    Joblib hands them out; processes that are fresh leave no model in memory, and one that is killed for
    lack of memory takes no other with it.

    Args:
        entry: module that makes a parcel's jobs.
        given: arguments for each parcel.
        groups: numbers of the jobs of each.
        to: whom to tell.
        at_once: processes; -1: one per core.
    """
    import joblib

    at_once = min(joblib.effective_n_jobs(at_once), len(given))
    threads = str(max(1, joblib.cpu_count() // at_once))
    environment = {"OMP_NUM_THREADS": threads, **os.environ, "PYTHONUNBUFFERED": "1"}
    started: list[subprocess.Popen[bytes]] = []
    stopping = False

    def make(number: int) -> None:
        said = to.folder / f"{number}.log"
        if stopping:
            return
        with said.open("ab") as log:
            # Ctrl-C is for the process that waits: it tells the others.
            process = subprocess.Popen(
                [sys.executable, "-m", entry, *given[number]],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
            started.append(process)
        while process.poll() is None:
            time.sleep(LOOK)
            to.look()
        if not stopping:
            to.lose(groups[number], f"its process ended with status {process.returncode}: {_last(said)}")

    parallel = joblib.Parallel(n_jobs=at_once, backend="threading")
    try:
        parallel(joblib.delayed(make)(number) for number in range(len(given)))
    except BaseException:
        stopping = True
        for process in started:
            process.terminate()
        for process in started:
            _end(process)
        to.stop("the sweep was interrupted")
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last(said: Path) -> str:
    """The last line of a log, and where it is."""
    text = said.read_text(errors="replace") if said.exists() else ""
    return f"{(text.strip().splitlines() or ['it said nothing'])[-1].strip()} ({said})"
