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
# Tag of the start of the process that does not depend on the clock (`_read_process_start`).
START_TICKS = "process.born"
# Seconds by which two readings of a process's start time may differ; used where `START_TICKS` is unknown.
SAME_START = 1.0


def build_process_tags() -> dict[str, str]:
    """Return the tags that identify this process."""
    return dict(_build_tags(os.getpid()))  # a fork has another id


@cache
def _build_tags(process_id: int) -> dict[str, str]:
    started = psutil.Process(process_id).create_time()
    tags = {HOST: platform.node(), MACHINE: _read_machine_id(), PID: str(process_id)}
    tags[STARTED] = f"{started:.2f}"
    ticks = _read_process_start(process_id)
    return tags | ({START_TICKS: ticks} if ticks else {})


@cache
def _read_machine_id() -> str:
    """Return an id that distinguishes machines or containers with the same host name.

    Process ids are unique only within a machine and a PID namespace.
    """
    id_file = Path("/etc/machine-id")
    namespace = Path("/proc/self/ns/pid")
    try:
        return fingerprint([id_file.read_text() if id_file.is_file() else "", os.readlink(namespace)])[:12]  # noqa: PTH115
    except OSError:  # not Linux
        return ""


def _read_process_start(pid: int) -> str:
    """Return Linux's boot id and the start of a process in ticks since boot; empty on other systems.

    In contrast to the start as a time of day, they do not change when the clock is set.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The process name, in brackets, may contain blanks and brackets.
        return f"{boot} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return ""


def has_ended(tags: Mapping[str, str]) -> bool:
    """Return whether the process identified by tags has certainly ended; False for another machine's."""
    if tags.get(HOST) != platform.node() or tags.get(MACHINE, _read_machine_id()) != _read_machine_id():
        return False
    try:
        started = psutil.Process(int(tags[PID])).create_time()
        ticks = _read_process_start(int(tags[PID]))
    except psutil.NoSuchProcess:
        return True
    except (KeyError, ValueError, psutil.Error):
        return False
    if ticks and START_TICKS in tags:
        return ticks != tags[START_TICKS]
    return bool(abs(started - float(tags[STARTED])) > SAME_START)


def end_dead_runs(client: MlflowClient) -> int:
    """End the RUNNING runs whose process died, as KILLED with a tag `ended`; return their number."""
    from mlflow.exceptions import MlflowException

    running, ended = "attributes.status = 'RUNNING'", 0
    # All runs are collected first: changing them while paginating would skip some.
    for run in [*pages.list_runs(client, [*pages.list_experiments(client)], running)]:
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

    MLflow stores absolute locations. If the folder `artifacts` contains a folder with the name of an
    experiment's location, the experiment was moved or copied there, with its runs. Returns the number of
    rewritten experiments and runs.
    """
    rewritten = 0
    # The context of a connection ends only the transaction, not the connection.
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        rows = connection.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
        for experiment, location in rows:
            folder = find_local_folder(location)
            new_location = (artifacts / folder.name).as_uri() if folder else location
            if folder is None or location == new_location or not (artifacts / folder.name).is_dir():
                continue
            rewritten += connection.execute(
                "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
                (new_location, experiment),
            ).rowcount
            rewritten += connection.execute(
                "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
                "WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
                (new_location, len(location) + 1, experiment, len(location) + 1, f"{location}/"),
            ).rowcount
    if rewritten:
        log.warning("%s was moved: updated the paths of %d experiments and runs", database, rewritten)
    return rewritten


def find_local_folder(location: str | None) -> Path | None:
    """Return the folder of an artifact location; None if it is not on this machine's file system."""
    parts = urlparse(location or "")
    return Path(url2pathname(parts.path)) if parts.scheme in ("", "file") and parts.path else None
