"""What is measured beside a peer: in turns, the least of several times."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median

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
    """The least of several times of each, taken in turns."""
    return {name: min(own) for name, own in turns(runs, REPEATS).items()}


def turns(runs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Several times of each, a turn of all after the other: what slows a machine for a while slows all.

    Every turn begins with another: a machine that has rested is faster for a while.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats):
        names = [*runs]
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times[name].append(runs[name]())
    return times


def turn_by_turn(own: list[float], peer: list[float]) -> str:
    """How many times as fast as the peer within single turns, as a note."""
    found = [theirs / ours for ours, theirs in zip(own, peer, strict=True)]
    return f"by turns {median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def told(rows: list[Compared]) -> None:
    """Print rows, a line of JSON each, for who started this process."""
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)
