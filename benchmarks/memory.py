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
    """What this process had read from disks so far."""
    found: int = psutil.Process().io_counters().read_bytes
    return found


def resident() -> dict[str, int]:
    """Bytes in memory, by kind: RssAnon are the process's own, RssFile pages of files."""
    said = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return {line[0].rstrip(":"): 1024 * int(line[1]) for line in said if line[0].startswith("Rss")}


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """Peaks of `resident` above what it was, sampled every hundredth of a second."""
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
