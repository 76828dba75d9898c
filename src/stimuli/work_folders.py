"""Folders to work in: held against other processes, and drafts that vanish afterwards."""

from __future__ import annotations

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
def hold(folder: Path, remedy: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder, made when absent, against other processes; one that was killed holds nothing.

    Args:
        folder: to hold until the block ends.
        remedy: what to do where it cannot be written.
        wait: for another process that holds it.

    Raises:
        InputError: it cannot be written, or another process holds it.
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
                raise InputError(
                    f"{folder}: another process is writing into it. Wait until it is done."
                ) from None
            log.info("%s: another process is writing into it; waiting for it", folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems keep no locks
            log.warning("%s: not held against another process (%s)", folder, error.strerror)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def draft_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder beside a file, in one that this process holds, and remove it afterwards."""
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # a killed process left it
    try:
        draft.mkdir()
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
