"""Measure in processes that are ended when their time is over, and keep what they measured until then."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

# One measurement: values by name, and what was measured by the name "what".
Row = dict[str, Any]
# Function that yields rows; it can be pickled for another process.
Measure = Callable[[], Iterable[Row]]
MEASURED = "measured"


def measure_within(
    seconds: float, measures: Mapping[str, tuple[Measure, float]]
) -> Iterator[tuple[str, list[Row], str]]:
    """Measure in turn, the most important first, within a number of seconds in all.

    Each measure has a budget in seconds, without which it is not started. It may also use the seconds that
    are left beyond the budgets of later ones.

    Args:
        seconds: seconds for all measures.
        measures: name -> function that measures, and its budget.

    Yields:
        Name, rows, and status: `measured`, or why rows are missing.
    """
    end = time.monotonic() + seconds
    reserved = sum(budget for _, budget in measures.values())
    for name, (measure, budget) in measures.items():
        reserved -= budget
        remaining = end - time.monotonic()
        if remaining < budget:
            yield name, [], f"not measured: {max(remaining, 0):.0f} s left, {budget:.0f} s needed"
        else:
            yield name, *_measure_in_process(measure, max(budget, remaining - reserved))


def _measure_in_process(measure: Measure, seconds: float) -> tuple[list[Row], str]:
    """Collect the rows of a new process, and end it and its children when its time is over."""
    context = get_context("spawn")  # a forked process cannot use a GPU
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_rows, args=(measure, sender))
    rows: list[Row] = []
    end = time.monotonic() + seconds
    process.start()
    sender.close()
    try:
        while receiver.poll(max(0.0, end - time.monotonic())):
            message = receiver.recv()
            if isinstance(message, str):
                return rows, message
            rows.append(message)
        return rows, f"not measured in full: ended after {seconds:.0f} s"
    except EOFError:  # the process died
        process.join()
        return rows, f"failed: exit status {process.exitcode}"
    finally:
        _end(process)


def _send_rows(measure: Measure, sender: Connection) -> None:
    """Send the rows of a measure and its status; in a process group of its own, with its children."""
    os.setpgid(0, 0)
    try:
        for row in measure():
            sender.send(row)
    except Exception as error:
        sender.send(f"failed: {error!r}")
        raise
    sender.send(MEASURED)


def _end(process: Any) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # not yet a group, or all of it has ended
        process.kill()
    process.join()
