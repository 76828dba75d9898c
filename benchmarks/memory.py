"""Memory of this process and what it reads, as Linux counts them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


def forget(path: Path) -> None:
    """Have the kernel drop a file's pages, so that it is read from disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes() -> int:
    """Return how much this process has read from disks so far."""
    return int(psutil.Process().io_counters().read_bytes)


def resident() -> dict[str, int]:
    """Return bytes in memory: the process's own, and pages of files."""
    used = psutil.Process().memory_info()
    return {"own": used.rss - used.shared, "mapped": used.shared}


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """Sample `resident` every hundredth of a second; yield its peaks above what it was."""
    before, done = resident(), threading.Event()
    peak = dict.fromkeys(before, 0)

    def watch() -> None:
        while not done.wait(0.01):
            for kind, size in resident().items():
                peak[kind] = max(peak[kind], size - before[kind])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
