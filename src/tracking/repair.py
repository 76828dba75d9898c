"""What a store needs when it is opened: its writers may have died; a local one may have been moved."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import sqlite3
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname

import psutil

from src.storage.cache import fingerprint
from src.tracking import pages

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)

HOST, MACHINE, PID, STARTED = "process.host", "process.machine", "process.pid", "process.started"
# The last of them by what no change of the clock moves.
BORN = "process.born"
# Times of one process are read off the same clock: they differ by rounding alone.
SAME_START = 1.0


def process() -> dict[str, str]:
    """Tags that name this process."""
    return dict(_process(os.getpid()))  # a fork is another


@cache
def _process(number: int) -> dict[str, str]:
    started = psutil.Process(number).create_time()
    known = {HOST: platform.node(), MACHINE: _machine(), PID: str(number), STARTED: f"{started:.2f}"}
    born = _born(number)
    return known | ({BORN: born} if born else {})


@cache
def _machine() -> str:
    """What tells apart machines of one name on a server that serves both: two laptops, two containers.

    Numbers of processes mean the same within one machine and one of its namespaces of processes.
    """
    named = Path("/etc/machine-id")
    space = Path("/proc/self/ns/pid")
    try:
        return fingerprint([named.read_text() if named.is_file() else "", os.readlink(space)])[:12]  # noqa: PTH115
    except OSError:  # no Linux
        return ""


def _born(pid: int) -> str:
    """Which boot of Linux a process belongs to, and its start in ticks since then; elsewhere empty.

    The time of day that its start comes to moves whenever the clock is set.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The name, in brackets, may hold anything.
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
    return f"{boot} {ticks}"


def gone(tags: Mapping[str, str]) -> bool:
    """Whether the process that tags name is certainly no more; one of another machine may live."""
    if tags.get(HOST) != platform.node() or tags.get(MACHINE, _machine()) != _machine():
        return False
    try:
        started = psutil.Process(int(tags[PID])).create_time()
        born = _born(int(tags[PID]))
    except psutil.NoSuchProcess:
        return True
    except (KeyError, ValueError, psutil.Error):
        return False
    if born and BORN in tags:
        return born != tags[BORN]
    return bool(abs(started - float(tags[STARTED])) > SAME_START)


def bury(client: MlflowClient) -> int:
    """End the RUNNING runs whose process died, as KILLED and marked with a tag `ended`.

    Returns:
        How many.
    """
    from mlflow.exceptions import MlflowException

    # No name of a machine has a quote in it that is not meant to break something.
    named = platform.node().replace("'", "").replace('"', "")
    running = f"attributes.status = 'RUNNING' and tags.`{HOST}` = '{named}'"
    # All of them first: pages of what is being changed would leave some out.
    buried = 0
    for run in [*pages.runs(client, [*pages.experiments(client)], running)]:
        if not gone(run.data.tags):
            continue
        try:
            # It may have ended well, and then its process, since the store was asked.
            if client.get_run(run.info.run_id).info.status != "RUNNING":
                continue
            client.set_tag(run.info.run_id, "ended", "its process was gone when the store was opened next")
            client.set_terminated(run.info.run_id, "KILLED")
        except MlflowException as error:  # somebody else's, on a server that knows who is who
            log.warning("run %s cannot be marked as KILLED: %s", run.info.run_id, error)
            continue
        buried += 1
    if buried:
        log.warning("%d runs of a process that is gone were still RUNNING: marked as KILLED", buried)
    return buried


def relocate(database: Path, artifacts: Path) -> int:
    """Rewrite where a database says that artifacts lie, after it was moved with them.

    MLflow writes absolute places. An experiment whose artifacts lie elsewhere while a folder of its
    name lies below `artifacts` has been moved or copied; its runs move with it.

    Args:
        database: of MLflow, SQLite.
        artifacts: folder of the artifacts beside it.

    Returns:
        How many experiments and runs were rewritten.
    """
    rewritten = 0
    # The connection's own context only ends the transaction.
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        rows = connection.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
        for experiment, location in rows:
            place = local(location)
            if place is None or not (artifacts / place.name).is_dir():
                continue
            here = (artifacts / place.name).as_uri()
            if location == here:
                continue
            rewritten += connection.execute(
                "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (here, experiment)
            ).rowcount
            rewritten += connection.execute(
                "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
                "WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
                (here, len(location) + 1, experiment, len(location) + 1, f"{location}/"),
            ).rowcount
    if rewritten:
        log.warning("%s was moved: the places of %d experiments and runs are rewritten", database, rewritten)
    return rewritten


def local(location: str | None) -> Path | None:
    """The folder that a place of artifacts names; None where it is none."""
    parts = urlparse(location or "")
    return Path(url2pathname(parts.path)) if parts.scheme in ("", "file") and parts.path else None
