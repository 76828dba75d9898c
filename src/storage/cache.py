"""Build folders named by the hash of their inputs once, and verify them whenever they are fetched.

An entry is a folder named by the hash of everything that determines its content. It appears under its name
only when complete (written next to the target, synced, renamed), and its `manifest.json` lists the size and
SHA-256 of every file in it. A process verifies an entry on first use, and again only if a file has changed.
An entry that does not match its manifest is rebuilt with a warning. Nothing is pickled.

Processes that share a store, even across machines, take no locks: if several build the same entry, the first
to finish publishes it, and the others use it. A killed process leaves a draft, which is no longer touched.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from src.errors import InputError, write_refusal

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
# Names of entries, and of hidden folders: drafts, and entries and drafts that are being discarded.
ENTRY_NAME = re.compile(r"[0-9a-f]{32}")
HIDDEN_NAME = re.compile(r"\.+[0-9a-f]{32}(\.[0-9a-f]{32}(\.discarded)?)+")
# Damage of an entry that does not exist.
ABSENT = "absent"
REMEDY = (
    "Free disk space, or set store.dir, store.checkpoints, store.pictures, store.stimuli or store.morphs "
    "to a writable folder."
)
# Age of a file's timestamp, in nanoseconds, below which the file may change again without a new timestamp.
SETTLED_NS = 2_000_000_000
# Seconds between touches of the draft of an entry that is being built.
TOUCH_INTERVAL = 60.0
# Attempts to publish an entry while other processes put damaged entries in its place.
ATTEMPTS = 100


def fingerprint(content: object) -> str:
    """Return the hash of a JSON-serialisable object, independent of key order (32 hex digits)."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class NotStored(Exception):
    """Error for an entry that would have to be built within `forbid_building`."""


_building_forbidden: ContextVar[bool] = ContextVar("dry", default=False)


@contextmanager
def forbid_building() -> Iterator[None]:
    """Forbid building within this block: `fetch` raises `NotStored` instead."""
    token = _building_forbidden.set(True)
    try:
        yield
    finally:
        _building_forbidden.reset(token)


def is_building_forbidden() -> bool:
    """Return whether the caller is within `forbid_building`."""
    return _building_forbidden.get()


def fetch(root: Path, key: str, build: Callable[[Path], Mapping[str, Any]]) -> Path:
    """Return the folder of the entry `key` in `root`; build the entry if it is absent or damaged.

    The key is a hash of everything that determines the entry's content. `build` writes the entry's files into
    a given empty folder and returns further fields of the manifest. Raises `InputError` if the folder cannot
    be written or the disk is full, and `NotStored` within `forbid_building`; no draft remains.
    """
    entry = root / key
    damage = _find_damage_if_changed(entry) if entry.exists() else ABSENT
    if not damage:
        return entry
    if _building_forbidden.get():
        raise NotStored(str(entry))
    if damage != ABSENT:
        log.warning("%s is damaged (%s): rebuilding it", entry, damage)
    draft = root / f".{key}.{uuid.uuid4().hex}"
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be written ({error.strerror}). {REMEDY}") from None
    try:
        with _keep_alive(draft):
            fields = dict(build(draft))
            _seal(draft, fields)
        _publish(draft, entry)
    except InputError:
        raise
    except Exception as error:
        why = write_refusal(error)
        if isinstance(error, PermissionError) and root in Path(error.filename or "").parents:
            why = why or f"{error.filename}: {error.strerror}"
        if not why:
            raise
        raise InputError(f"{root}: cannot be written ({why}). {REMEDY}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return entry


@contextmanager
def _keep_alive(draft: Path) -> Iterator[None]:
    """Touch a draft while it is built, so that `prune` does not take it for an abandoned draft."""
    done = threading.Event()

    def touch_often() -> None:
        while not done.wait(TOUCH_INTERVAL):
            with suppress(OSError):
                os.utime(draft)

    thread = threading.Thread(target=touch_often, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def touch(entry: Path) -> None:
    """Set the time of an entry's last use to now; do nothing in a read-only store."""
    with suppress(OSError):
        os.utime(entry / MANIFEST)


def read_manifest(entry: Path) -> dict[str, Any]:
    """Return the manifest of a complete entry."""
    content: dict[str, Any] = json.loads((entry / MANIFEST).read_text())
    return content


def find_damage(entry: Path) -> str:
    """Return the first mismatch of an entry with its manifest; empty if it is intact."""
    if not (entry / MANIFEST).is_file():  # reading a pipe would block
        return f"{MANIFEST} is missing"
    try:
        files = read_manifest(entry)["files"]
        for name, recorded in files.items():
            path = entry / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != recorded["bytes"]:
                return f"{name} has {path.stat().st_size} bytes, not {recorded['bytes']}"
            if file_hash(path) != recorded["sha256"]:
                return f"the content of {name} has changed"
        present = {path.relative_to(entry).as_posix() for path in entry.rglob("*") if path.is_file()}
        for name in sorted(present - {*files, MANIFEST}):
            if not Path(name).name.startswith("."):  # file managers leave hidden files
                return f"{name} is not in {MANIFEST}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{MANIFEST} cannot be read: {error!r}"
    return ""


# Entry -> states of its files (`_file_states`) when they last matched the manifest.
_verified: dict[Path, dict[str, tuple[int, ...]]] = {}


def _find_damage_if_changed(entry: Path) -> str:
    """Return the damage of an entry (empty if intact) or `ABSENT`; verify it only if files have changed."""
    try:
        now, states = time.time_ns(), _read_file_states(entry)
    except FileNotFoundError:  # another process removed or replaced the entry
        return find_damage(entry) if entry.exists() else ABSENT
    if _verified.get(entry) == states:
        return ""
    damage = find_damage(entry)
    if not damage and all(now - state[1] > SETTLED_NS for state in states.values()):
        _verified[entry] = states
    return damage


def _read_file_states(entry: Path) -> dict[str, tuple[int, ...]]:
    """Return the size, modification time, inode and change time of each file of an entry."""
    stats = ((path, path.stat()) for path in sorted(entry.rglob("*")) if path.is_file())
    # A copy may preserve the modification time, but nothing can set the change time (ctime).
    return {
        str(path): (stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns) for path, stat in stats
    }


def _seal(draft: Path, fields: dict[str, Any]) -> None:
    """Write the manifest of a draft, and sync all files to disk."""
    paths = sorted(path for path in draft.rglob("*") if path.is_file())
    fields["files"] = {
        path.relative_to(draft).as_posix(): {"bytes": path.stat().st_size, "sha256": file_hash(path)}
        for path in paths
    }
    (draft / MANIFEST).write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n")
    for path in [*paths, draft / MANIFEST]:
        _sync(path)


def _publish(draft: Path, entry: Path) -> None:
    """Move a draft to its entry, unless an intact entry exists; discard a damaged entry first."""
    for _ in range(ATTEMPTS):
        try:
            draft.rename(entry)
            break
        except OSError as error:
            # Usually the entry exists, intact or damaged; any other error is raised after the last attempt.
            conflict, state = error, read_entry_state(entry)
            if not find_damage(entry):
                return
            discard(entry, state)
    else:
        raise conflict
    with suppress(OSError):  # some file systems cannot sync folders; a lost entry is built again
        _sync(entry.parent)


def read_entry_state(entry: Path) -> tuple[int, ...]:
    """Return numbers that change when an entry is replaced or used (inode, times); () if it is absent."""
    try:
        folder = entry.stat()
    except FileNotFoundError:
        return ()
    try:
        return folder.st_ino, folder.st_mtime_ns, (entry / MANIFEST).stat().st_mtime_ns
    except OSError:
        return folder.st_ino, folder.st_mtime_ns


def discard(entry: Path, state: tuple[int, ...]) -> bool:
    """Remove an entry atomically, unless it was replaced or used meanwhile; return whether it was removed.

    `state` is the `entry_state` of the entry before it was checked.
    """
    aside = entry.with_name(f".{entry.name}.{uuid.uuid4().hex}.discarded")
    if not state or read_entry_state(entry) != state:
        return False
    try:
        entry.rename(aside)
    except FileNotFoundError:
        return False
    if read_entry_state(aside) != state:  # replaced or used since the check: put it back
        with suppress(OSError):  # fails if another entry has the name by now; then this entry is not needed
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
