"""Batches run by processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import joblib

from src.sweeps.result_collector import ResultCollector

# Seconds between looks at a process; and until a stopped one, which ends its runs first, is killed.
POLL, STOP = 0.5, 60


def send(paths: list[Path], groups: list[list[int]], collector: ResultCollector, n_jobs: int) -> None:
    """Run every batch in a process of its own.

    Joblib deals them out; a fresh process leaves no model in memory, and one that is killed for lack of
    memory takes no other with it.

    Args:
        paths: batches.
        groups: numbers of the jobs of each.
        collector: collector of their results.
        n_jobs: processes at once; -1: one per core.
    """
    n_jobs = min(joblib.effective_n_jobs(n_jobs), len(paths))
    threads = str(max(1, joblib.cpu_count() // n_jobs))
    environment = {"OMP_NUM_THREADS": threads, **os.environ, "PYTHONUNBUFFERED": "1"}
    processes: list[subprocess.Popen[bytes]] = []
    stopping = False

    def run(path: Path, numbers: list[int]) -> None:
        if stopping:
            return
        log_path = path.with_suffix(".log")
        with log_path.open("ab") as stream:
            # Ctrl-C is for the process that waits: it stops the others.
            process = subprocess.Popen(
                [sys.executable, "-m", "src.sweeps.worker", str(path)],
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
            processes.append(process)
        while process.poll() is None:
            time.sleep(POLL)
            collector.collect()
        if not stopping:
            collector.lose(
                numbers, f"its process ended with status {process.returncode}: {_last_line(log_path)}"
            )

    parallel = joblib.Parallel(n_jobs=n_jobs, backend="threading")
    try:
        parallel(joblib.delayed(run)(*pair) for pair in zip(paths, groups, strict=True))
    except BaseException:
        stopping = True
        for process in processes:
            process.terminate()
        for process in processes:
            _end(process)
        collector.stop("the sweep was interrupted")
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(path: Path) -> str:
    """Return the last line of a log, and its path."""
    lines = path.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    return f"{lines[-1].strip()} ({path})"
