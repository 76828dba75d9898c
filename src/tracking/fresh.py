"""A new tracking database: made beside its place, and there only when it is whole."""

from __future__ import annotations

import logging
import os
import uuid
from pathlib import Path

log = logging.getLogger(__name__)


def make(database: Path) -> None:
    """See that there is a database: MLflow's migrations, broken off halfway, can never be taken up again.

    Args:
        database: of MLflow, SQLite. One that holds nothing at all is made anew.
    """
    empty = database.is_file() and not database.stat().st_size
    if database.exists() and not empty:
        return
    if empty:
        log.warning("%s is empty: a new one is made, and nothing is known of earlier runs", database)
        database.unlink()
    database.parent.mkdir(parents=True, exist_ok=True)
    draft = database.with_name(f".{database.name}.{uuid.uuid4().hex}")
    try:
        migrate(draft)
        _place(draft, database)
    finally:
        draft.unlink(missing_ok=True)


def migrate(database: Path) -> None:
    """Make a database by MLflow's migrations, which takes seconds."""
    from mlflow import MlflowClient

    MlflowClient(f"sqlite:///{database}").search_experiments(max_results=1)


def _place(draft: Path, database: Path) -> None:
    try:
        # Unlike a rename, a second name never replaces the database that another process made meanwhile.
        os.link(draft, database)
    except FileExistsError:
        return
    except OSError:  # this file system knows no second names
        if not database.exists():
            draft.rename(database)
