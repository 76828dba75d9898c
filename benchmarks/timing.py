"""Time calls and their peers alternately, in processes of their own; report the minimum."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

REPEATS = 3


@dataclass(frozen=True)
class Compared:
    """One measurement and its peer's, of one process.

    Attributes:
        what: was measured.
        seconds: it took.
        peer: that did the same work, or the part of it that nobody can save.
        peer_seconds: that took.
        asked: how many times as fast as the peer it should be at least; None: nobody asked.
        note: what else is known, such as how far results lie apart.
    """

    what: str
    seconds: float
    peer: str
    peer_seconds: float
    asked: float | None = None
    note: str = ""

    @property
    def times(self) -> float:
        """How many times as fast as the peer."""
        return self.peer_seconds / self.seconds


def seconds_of(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def in_turns(runs: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return the least of several times of each, taken in turns."""
    return {name: min(times) for name, times in turns(runs, REPEATS).items()}


def turns(runs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Time each several times, a turn of all after the other: what slows a machine for a while slows all.

    Every turn begins with another: a machine that has rested is faster for a while.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats):
        names = [*runs]
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times[name].append(runs[name]())
    return times


def turn_by_turn(own: list[float], peer: list[float]) -> str:
    """Note how many times as fast as the peer single turns are."""
    ratios = [theirs / ours for ours, theirs in zip(own, peer, strict=True)]
    return f"by turns {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def in_fresh_process(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in a new process.

    It is forked from a server that holds next to nothing: on Linux the peak memory of a process is at least
    that of the process that it was forked from.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([])
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(call, *arguments, **named).result()
