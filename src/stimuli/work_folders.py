"""Lock work folders against other processes, and provide temporary draft folders."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from src.errors import InputError

log = logging.getLogger(__name__)


@contextmanager
def lock_folder(folder: Path, remedy: str, *, wait: bool = False) -> Iterator[None]:
    """Make a folder unless it exists, and lock it; the lock ends with the block or the process.

    Raises:
        InputError: the folder cannot be written, or another process has locked it and `wait` is false.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}). {remedy}") from None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise InputError(f"{folder}: another process writes into it. Wait until it ends.") from None
            log.info("%s: another process is writing into it; waiting for it", folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems have no locks
            log.warning("%s: not locked against other processes (%s)", folder, error.strerror)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def make_draft_folder(target: Path) -> Iterator[Path]:
    """Provide an empty draft folder next to a file in a locked folder, and remove it on exit."""
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # left by a killed process
    try:
        draft.mkdir()
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
