"""Time calls and their peers in alternation, report the minimum, and run calls in new processes."""

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

ROUNDS = 3
# Bytes of the unit in which the system counts peak memory: kilobytes on Linux, bytes on macOS.
MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Comparison:
    """A measurement, and that of its peer in the same process."""

    what: str  # description of what is measured
    seconds: float  # seconds that it takes
    peer: str  # description of the peer, which does the same work, or only its unavoidable part
    peer_seconds: float  # seconds that the peer takes
    limit: float | None = None  # lower limit of the speedup; None: no limit
    note: str = ""  # further results, such as the largest difference between the results of both

    @property
    def speedup(self) -> float:
        """Return the peer's seconds divided by the measured seconds."""
        return self.peer_seconds / self.seconds


def seconds_of(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def min_seconds(runs: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, float]:
    """Time runs as `seconds_by_round`, and return the minimum seconds of each."""
    return {name: min(seconds) for name, seconds in seconds_by_round(runs, rounds).items()}


def seconds_by_round(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Time all runs in each of several rounds, so that a slow phase of the machine affects all alike.

    A run is a function that returns its seconds. Each round starts with a different run, because the first
    run after an idle time of the machine is faster.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = [*runs]
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(runs[name]())
    return seconds


def describe_speedups(seconds: list[float], peer_seconds: list[float]) -> str:
    """Describe the speedups over the peer by their median and range over rounds."""
    speedups = [peer / run for run, peer in zip(seconds, peer_seconds, strict=True)]
    return f"speedup per round: median {median(speedups):.2f}, {min(speedups):.2f} to {max(speedups):.2f}"


def in_fresh_process(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in a new process.

    It is forked from a server process that uses hardly any memory: on Linux the peak memory of a process is
    at least that of the process that it was forked from.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([])
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(call, *arguments, **named).result()
