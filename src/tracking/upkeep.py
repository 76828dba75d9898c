"""What a local store needs when it is opened: it may have been moved, its writers may have died."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import sqlite3
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname

import psutil

from src.errors import InputError

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)

HOST, PID, STARTED = "process.host", "process.pid", "process.started"
# The same, by what no change of the clock moves.
BORN = "process.born"
# Times of one process are read off the same clock: they differ by rounding alone.
SAME_START = 1.0


@cache
def process() -> dict[str, str]:
    """Tags that name this process."""
    started = psutil.Process().create_time()
    born = _born(os.getpid())
    known = {HOST: platform.node(), PID: str(os.getpid()), STARTED: f"{started:.2f}"}
    return known | ({BORN: born} if born else {})


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
    if tags.get(HOST) != platform.node():
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


def require(database: Path, uri: str) -> None:
    """See that a database is one of MLflow's, without making it so.

    Raises:
        InputError: it is not there, or another program's.
    """
    known = 0
    if database.is_file():
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as asked,
        ):
            named = (
                "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name IN ('experiments', 'runs')"
            )
            known = asked.execute(named).fetchone()[0]
    if known < 2:
        raise InputError(
            f"tracking.uri={uri}: there is no tracking database. Name the one that the sweep was given "
            "(tracking.uri=sqlite:///PATH), or run a sweep first: python -m src.run -m 'exp=glob(*_to_*)'"
        )


def bury(client: MlflowClient) -> int:
    """End the RUNNING runs whose process died, as KILLED and marked with a tag `ended`.

    Returns:
        How many.
    """
    experiments = [found.experiment_id for found in client.search_experiments()]
    dead = [
        run
        for run in client.search_runs(experiments, "attributes.status = 'RUNNING'", max_results=1000)
        if gone(run.data.tags)
    ]
    for run in dead:
        client.set_tag(run.info.run_id, "ended", "its process was gone when the store was opened next")
        client.set_terminated(run.info.run_id, "KILLED")
    if dead:
        log.warning("%d runs of a process that is gone were still RUNNING: marked as KILLED", len(dead))
    return len(dead)


def end(
    client: MlflowClient, experiment: str, child: str, names: Collection[str], why: str
) -> dict[str, str]:
    """End the RUNNING jobs of a sweep whose process is known to be gone, as KILLED and marked with `ended`.

    Args:
        client: of the store.
        experiment: id of theirs.
        child: filter of MLflow that holds for the sweep's jobs.
        names: of the runs, those whose process is gone.
        why: what the tag says.

    Returns:
        Name of each such run, whether it was RUNNING still or had said itself that it was killed -> id.
    """
    found: dict[str, str] = {}
    token = None
    while token is None or token:
        page = client.search_runs(
            [experiment], child, max_results=1000, order_by=["attributes.start_time ASC"], page_token=token
        )
        for run in page:
            if run.info.run_name not in names or run.info.status not in ("RUNNING", "KILLED"):
                continue
            found[run.info.run_name] = run.info.run_id
            if run.info.status == "RUNNING":
                client.set_tag(run.info.run_id, "ended", why)
                client.set_terminated(run.info.run_id, "KILLED")
        token = page.token or ""
    return found


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
            place = _local(location)
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


def _local(location: str | None) -> Path | None:
    parts = urlparse(location or "")
    return Path(url2pathname(parts.path)) if parts.scheme in ("", "file") and parts.path else None
