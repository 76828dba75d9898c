"""Repair a store when it is opened: end runs of dead processes, and rewrite paths of a moved database."""

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
from src.tracking import pages, run_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)

HOST, MACHINE, PID, STARTED = "process.host", "process.machine", "process.pid", "process.started"
# Start of the process, independent of changes of the clock.
BORN = "process.born"
# Seconds by which start times of one process may differ, where `BORN` is unknown (not on Linux).
SAME_START = 1.0


def process_tags() -> dict[str, str]:
    """Return the tags that identify this process."""
    return dict(_process(os.getpid()))  # a fork has another id


@cache
def _process(process_id: int) -> dict[str, str]:
    started = psutil.Process(process_id).create_time()
    known = {HOST: platform.node(), MACHINE: _machine(), PID: str(process_id), STARTED: f"{started:.2f}"}
    born = _born(process_id)
    return known | ({BORN: born} if born else {})


@cache
def _machine() -> str:
    """Return an id that distinguishes machines or containers with the same host name.

    Process ids are unique only within a machine and a PID namespace.
    """
    id_file = Path("/etc/machine-id")
    namespace = Path("/proc/self/ns/pid")
    try:
        return fingerprint([id_file.read_text() if id_file.is_file() else "", os.readlink(namespace)])[:12]  # noqa: PTH115
    except OSError:  # not Linux
        return ""


def _born(pid: int) -> str:
    """Return the boot id of Linux and the start of a process in ticks since boot; empty on other systems.

    Unlike these, the start as a time of day changes whenever the clock is set.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The process name, in brackets, may contain blanks and brackets.
        return f"{boot} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return ""


def has_ended(tags: Mapping[str, str]) -> bool:
    """Return whether the process identified by tags has certainly ended; False if on another machine."""
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


def end_dead_runs(client: MlflowClient) -> int:
    """End the RUNNING runs whose process died, as KILLED with a tag `ended`; return their number."""
    from mlflow.exceptions import MlflowException

    running = "attributes.status = 'RUNNING'"
    # Collect all runs first: changing them while paginating would skip some.
    ended = 0
    for run in [*pages.runs(client, [*pages.experiments(client)], running)]:
        if not has_ended(run_tags.to_facts(run.data.tags)):
            continue
        try:
            # The run, and then its process, may have ended normally since the query.
            if client.get_run(run.info.run_id).info.status == "RUNNING":
                reason = "its process had died when the store was next opened"
                client.set_tag(run.info.run_id, "ended", reason)
                client.set_terminated(run.info.run_id, "KILLED")
                ended += 1
        except MlflowException as error:  # a run of another user, on a server with permissions
            log.warning("run %s cannot be marked as KILLED: %s", run.info.run_id, error)
    if ended:
        log.warning("marked %d runs as KILLED: they were RUNNING, but their process had died", ended)
    return ended


def relocate(database: Path, artifacts: Path) -> int:
    """Rewrite the artifact locations in a database that was moved together with its artifacts.

    MLflow stores absolute locations. If `artifacts` has a folder of the same name as the last part of an
    experiment's location, the experiment has been moved or copied there, with its runs. Returns the number
    of rewritten experiments and runs.
    """
    rewritten = 0
    # The context of a connection ends only the transaction, not the connection.
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        rows = connection.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
        for experiment, location in rows:
            folder = local_folder(location)
            here = (artifacts / folder.name).as_uri() if folder else location
            if folder is None or location == here or not (artifacts / folder.name).is_dir():
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
        log.warning("%s was moved: updated the paths of %d experiments and runs", database, rewritten)
    return rewritten


def local_folder(location: str | None) -> Path | None:
    """Return the local folder of an artifact location; None if it is not local."""
    parts = urlparse(location or "")
    return Path(url2pathname(parts.path)) if parts.scheme in ("", "file") and parts.path else None
