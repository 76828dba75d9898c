"""Content-addressed folders on disk: built once, verified whenever they are read.

An entry is a folder named by the hash of all that decides its content. It appears under its
name only when complete (written beside the target, synced, renamed), and its `manifest.json`
holds the size and SHA-256 of every file in it. An entry that does not match its manifest is
rebuilt, and that is said. Nothing is pickled.

Processes that share a store, on several machines too, hold no locks: who comes last finds an entry
there and takes it. What a process that was killed leaves is a folder that no one touches any more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from src.errors import InputError, refused

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
ABSENT = "absent"
REMEDY = (
    "Make room, or set store.dir, store.checkpoints, store.pictures, store.stimuli or store.morphs "
    "to a folder that can."
)
# A file that changed so shortly ago may change again and bear the same time; nanoseconds.
SETTLED = 2_000_000_000
# Seconds between signs of life of a process that builds an entry.
BEAT = 60.0
# To publish an entry, where others put damaged ones there at the same time.
ATTEMPTS = 100


def fingerprint(content: object) -> str:
    """Hash of a JSON-serialisable object, independent of the order of its keys (32 hex digits)."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class NotStored(Exception):
    """An entry would have to be built, but nothing is to be built now."""


_dry: ContextVar[bool] = ContextVar("dry", default=False)


@contextmanager
def dry() -> Iterator[None]:
    """Within this block nothing is built: `fetch` raises `NotStored` instead."""
    token = _dry.set(True)
    try:
        yield
    finally:
        _dry.reset(token)


def building_forbidden() -> bool:
    """Whether this is within `dry`."""
    return _dry.get()


def fetch(root: Path, key: str, build: Callable[[Path], Mapping[str, Any]]) -> Path:
    """Return the entry `key` below `root`, building it where it is absent or damaged.

    Args:
        root: folder of the entries; made when absent.
        key: name of the entry, a hash of all that decides its content.
        build: writes the entry's files into the empty folder that it is given and returns what
            the manifest should say of them besides sizes and hashes.

    Raises:
        InputError: the folder cannot be written, or the disk is full; nothing is left behind.
        NotStored: within `dry`, where it would be built.
    """
    entry = root / key
    damage = _damaged_since(entry) if entry.exists() else ABSENT
    if not damage:
        return entry
    if _dry.get():
        raise NotStored(str(entry))
    if damage != ABSENT:
        log.warning("%s is damaged (%s): it is computed anew", entry, damage)
    draft = root / f".{key}.{uuid.uuid4().hex}"
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be written ({error.strerror}). {REMEDY}") from None
    try:
        with _alive(draft):
            described = dict(build(draft))
            _seal(draft, described)
        _publish(draft, entry)
    except InputError:
        raise
    except Exception as error:
        if not (why := refused(error) or _denied(error, root)):
            raise
        raise InputError(f"{root}: cannot be written ({why}). {REMEDY}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return entry


def _denied(error: Exception, root: Path) -> str:
    """What of a store belongs to somebody else, who let nobody write there; empty where nothing does."""
    if isinstance(error, PermissionError) and error.filename and root in Path(error.filename).parents:
        return f"{error.filename}: {error.strerror}"
    return ""


@contextmanager
def _alive(draft: Path) -> Iterator[None]:
    """Touch a draft while it is built: a training writes nothing for hours, and is no leftover."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT):
            with suppress(OSError):
                os.utime(draft)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def touch(entry: Path) -> None:
    """Note that an entry was used now; a store that may only be read keeps no note."""
    with suppress(OSError):
        os.utime(entry / MANIFEST)


def manifest(entry: Path) -> dict[str, Any]:
    """The manifest of a complete entry."""
    content: dict[str, Any] = json.loads((entry / MANIFEST).read_text())
    return content


def damaged(entry: Path) -> str:
    """What is wrong with an entry's bytes; empty where nothing is."""
    if not (entry / MANIFEST).is_file():  # a pipe would be waited for
        return f"{MANIFEST} is missing"
    try:
        files = manifest(entry)["files"]
        for name, recorded in files.items():
            path = entry / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != recorded["bytes"]:
                return f"{name} has {path.stat().st_size} bytes, not {recorded['bytes']}"
            if file_hash(path) != recorded["sha256"]:
                return f"{name} has other content than was written"
        there = {path.relative_to(entry).as_posix() for path in entry.rglob("*") if path.is_file()}
        for name in sorted(there - {*files, MANIFEST}):
            if not Path(name).name.startswith("."):  # what a file manager leaves is none of ours
                return f"{name} is not in {MANIFEST}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{MANIFEST} cannot be read: {error!r}"
    return ""


# Entry -> size and time of each of its files when these were last found to be what was written.
_sound: dict[Path, dict[str, tuple[int, ...]]] = {}


def _damaged_since(entry: Path) -> str:
    """The same; files that are as they were when this process last read them are not read again."""
    try:
        now, seen = time.time_ns(), _seen(entry)
    except FileNotFoundError:  # removed, or replaced, while it was looked at
        return damaged(entry) if entry.exists() else ABSENT
    if _sound.get(entry) == seen:
        return ""
    wrong = damaged(entry)
    if not wrong and all(now - said[1] > SETTLED for said in seen.values()):
        _sound[entry] = seen
    return wrong


def _seen(entry: Path) -> dict[str, tuple[int, ...]]:
    found = ((path, path.stat()) for path in sorted(entry.rglob("*")) if path.is_file())
    # Who copies bytes back may set the time of a change, but nobody sets the time of its entry.
    return {
        str(path): (said.st_size, said.st_mtime_ns, said.st_ino, said.st_ctime_ns) for path, said in found
    }


def _seal(draft: Path, described: dict[str, Any]) -> None:
    paths = sorted(path for path in draft.rglob("*") if path.is_file())
    described["files"] = {
        path.relative_to(draft).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": file_hash(path),
        }
        for path in paths
    }
    (draft / MANIFEST).write_text(json.dumps(described, indent=2, sort_keys=True) + "\n")
    for path in [*paths, draft / MANIFEST]:
        _sync(path)


def _publish(draft: Path, entry: Path) -> None:
    for _ in range(ATTEMPTS):
        try:
            draft.rename(entry)
            break
        except OSError as error:
            # Something stands there: another process's entry, as good as ours, or a damaged one.
            refused, seen = error, seen_as(entry)
            if not damaged(entry):
                return
            discard(entry, seen)
    else:
        raise refused
    with suppress(OSError):  # some file systems sync no folders; what is lost so is built again
        _sync(entry.parent)


def seen_as(entry: Path) -> tuple[int, ...]:
    """What tells an entry from another in its place, and from itself once used again; () if there is none."""
    try:
        folder = entry.stat()
    except FileNotFoundError:
        return ()
    try:
        return folder.st_ino, folder.st_mtime_ns, (entry / MANIFEST).stat().st_mtime_ns
    except OSError:
        return folder.st_ino, folder.st_mtime_ns


def discard(entry: Path, seen: tuple[int, ...]) -> bool:
    """Remove an entry, at once and whole, unless it is another by now.

    Args:
        entry: to remove.
        seen: what `seen_as` said of it before it was judged.

    Returns:
        Whether it was removed.
    """
    aside = entry.with_name(f".{entry.name}.{uuid.uuid4().hex}.discarded")
    if not seen or seen_as(entry) != seen:
        return False
    try:
        entry.rename(aside)
    except FileNotFoundError:
        return False
    if seen_as(aside) != seen:
        with suppress(OSError):  # where yet another stands there, this one is not needed
            aside.rename(entry)
            return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
