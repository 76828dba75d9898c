"""Check that a SQLite database can be opened: MLflow tries for 100 s without a word, whatever is wrong."""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from src.errors import InputError, refused
from src.tracking import waiting
from src.tracking.tracking_server import Unreachable

log = logging.getLogger(__name__)

# Seconds that a database which another process holds is waited for, and between two attempts.
PATIENCE, PAUSE = 60.0, 0.2
OTHER = "Name a database that MLflow made, or a new one: tracking.uri=sqlite:///PATH"
REMEDIES = {
    "database is locked": "Another process holds it: when that has ended, the same command goes on.",
    "readonly database": "Make the file writable, or name another: tracking.uri=sqlite:///PATH",
}
SQLITE = "sqlite:///"
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"


def require(database: Path, *, make: bool = True) -> None:
    """Check that a database of MLflow can be opened and written, or made.

    Args:
        database: SQLite, or where one is to be made.
        make: false: it has to be there, and is only read.

    Raises:
        InputError: there is none, and none is to be made.
        Unreachable: it cannot be opened; the message says why, and what to do.
    """
    if database.exists() and not database.is_file():
        kind = "a folder" if database.is_dir() else "no ordinary file"
        raise _unreachable(database, f"expected a file, got {kind}", OTHER)
    if make:
        _require_folder(database)
    tables: set[str] = set()
    if database.is_file() and database.stat().st_size:
        tables = _tables(database, make)
    if not make and not {"experiments", "runs"} <= tables:
        raise InputError(
            f"tracking.uri={SQLITE}{database}: there is no tracking database. Name the one that the sweep "
            "was given (tracking.uri=sqlite:///PATH), or run a sweep first: "
            "python -m src.run -m 'exp=glob(*_to_*)'"
        )
    if tables and "experiments" not in tables:
        raise _unreachable(database, "it holds the tables of another program", OTHER)


def _require_folder(database: Path) -> None:
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        # SQLite writes its journal beside the database.
        tempfile.TemporaryFile(dir=database.parent).close()
    except OSError as error:
        remedy = "Make the folder writable, or name another place: tracking.uri=sqlite:///PATH"
        raise _unreachable(database, f"its folder takes no files: {error.strerror}", remedy) from None


def _tables(database: Path, written: bool) -> set[str]:
    """Return the names of a database's tables, as soon as no other process holds it."""
    began, announced = time.monotonic(), False
    while True:
        try:
            return _read(database, written)
        except sqlite3.Error as error:
            waited = time.monotonic() - began
            if "locked" not in str(error) or waited > PATIENCE:
                if not written and "locked" not in str(error):
                    return set()  # no database at all
                remedy = REMEDIES.get(refused(error), OTHER)
                raise _unreachable(database, str(error), remedy) from None
        if waited > waiting.SILENCE and not announced:
            log.warning("%s: waiting for another process that holds it, up to %g s", database, PATIENCE)
            announced = True
        time.sleep(PAUSE)


def _read(database: Path, written: bool) -> set[str]:
    address = f"{database.absolute().as_uri()}?mode={'rw' if written else 'ro'}"
    with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as connection:
        if written:
            connection.execute("BEGIN IMMEDIATE")
        return {name for (name,) in connection.execute(TABLES)}


def _unreachable(database: Path, problem: str, remedy: str) -> Unreachable:
    return Unreachable(f"tracking.uri={SQLITE}{database}: cannot be opened ({problem}). {remedy}")
