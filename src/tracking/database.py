"""Create and check MLflow's SQLite database before MLflow opens it and silently retries for 100 s."""

import logging
import os
import sqlite3
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path

from src.errors import InputError, write_refusal
from src.tracking import tracking_server
from src.tracking.tracking_server import Unreachable

log = logging.getLogger(__name__)

# Seconds to wait for a database that another process has locked, and seconds between two attempts.
LOCK_TIMEOUT, RETRY_INTERVAL = 60.0, 0.2
USE_ANOTHER = "Use a database that MLflow created, or a new one: tracking.uri=sqlite:///PATH"
# Reason for which a database cannot be opened (`write_refusal`) -> remedy.
REMEDIES = {
    "database is locked": "Another process has locked it. Run the same command again when that has ended.",
    "readonly database": "Make the file writable, or use another: tracking.uri=sqlite:///PATH",
}
SQLITE = "sqlite:///"
TABLES_QUERY = "SELECT name FROM sqlite_master WHERE type = 'table'"


def check(database: Path, *, make: bool = True) -> None:
    """Check that a SQLite database of MLflow can be opened.

    With `make`, its folder is made and has to be writable; otherwise the database has to exist and is only
    read. Raises `Unreachable` if it cannot be opened, `InputError` if it does not exist without `make`.
    """
    if database.exists() and not database.is_file():
        kind = "a folder" if database.is_dir() else "a device or pipe"
        raise _build_unreachable(database, f"expected a file, got {kind}", USE_ANOTHER)
    if make:
        try:
            database.parent.mkdir(parents=True, exist_ok=True)
            # SQLite writes its journal next to the database.
            tempfile.TemporaryFile(dir=database.parent).close()
        except OSError as error:
            problem = f"its folder is not writable: {error.strerror}"
            remedy = "Make the folder writable, or use another: tracking.uri=sqlite:///PATH"
            raise _build_unreachable(database, problem, remedy) from None
    tables = (
        _read_table_names(database, writable=make)
        if database.is_file() and database.stat().st_size
        else set()
    )
    if not make and not {"experiments", "runs"} <= tables:
        problem = "not a tracking database" if database.exists() else "the database does not exist"
        raise InputError(
            f"tracking.uri={SQLITE}{database}: {problem}. Use the sweep's database "
            "(tracking.uri=sqlite:///PATH), or run a sweep first: python -m src.run -m 'exp=glob(*_to_*)'"
        )
    if tables and "experiments" not in tables:
        raise _build_unreachable(database, "it contains tables of another program", USE_ANOTHER)


def create(database: Path) -> None:
    """Create a database, atomically as MLflow cannot resume interrupted migrations, unless it exists."""
    if database.is_file() and not database.stat().st_size:
        log.warning("%s is empty: creating a new database without the earlier runs", database)
        database.unlink()
    if database.exists():
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    draft = database.with_name(f".{database.name}.{uuid.uuid4().hex}")
    try:
        migrate(draft)
        try:
            # Unlike a rename, a hard link never replaces a database that another process made meanwhile.
            os.link(draft, database)
        except OSError:  # it exists, or this file system has no hard links
            if not database.exists():
                draft.rename(database)
    finally:
        draft.unlink(missing_ok=True)


def migrate(database: Path) -> None:
    """Create a database by MLflow's migrations, which takes seconds."""
    from mlflow import MlflowClient

    MlflowClient(f"sqlite:///{database}").search_experiments(max_results=1)


def _read_table_names(database: Path, *, writable: bool) -> set[str]:
    """Return the names of a database's tables; wait for another process that has locked it.

    Returns an empty set for a file that is no database, unless `writable`; raises `Unreachable` otherwise.
    """
    address = f"{database.absolute().as_uri()}?mode={'rw' if writable else 'ro'}"
    start, announced = time.monotonic(), False
    while True:
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as connection:
                if writable:
                    connection.execute("BEGIN IMMEDIATE")  # fails if another process has locked it
                return {name for (name,) in connection.execute(TABLES_QUERY)}
        except sqlite3.Error as error:
            waited, locked = time.monotonic() - start, "locked" in str(error)
            if not locked and not writable:
                return set()  # not a database
            if not locked or waited > LOCK_TIMEOUT:
                remedy = REMEDIES.get(write_refusal(error), USE_ANOTHER)
                raise _build_unreachable(database, str(error), remedy) from None
        if waited > tracking_server.ANNOUNCE_AFTER and not announced:
            log.warning(
                "%s: waiting up to %g s for another process that has locked it", database, LOCK_TIMEOUT
            )
            announced = True
        time.sleep(RETRY_INTERVAL)


def _build_unreachable(database: Path, problem: str, remedy: str) -> Unreachable:
    return Unreachable(f"tracking.uri={SQLITE}{database}: cannot be opened ({problem}). {remedy}")
