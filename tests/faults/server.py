"""Forks a child for every command, which dies where it is told to: imports are paid for once.

A process by itself, for a fork of one that has computed already would inherit its threads' locks.
Reads one JSON object per line, answers with one.
"""

import gc
import importlib
import json
import mmap
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path

# Where a child writes how many steps it has made, and what comes next.
COUNTED, NAMED = 8, 256
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "os.utime")


def main() -> None:
    """Answer requests until there are no more."""
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    board = mmap.mmap(-1, COUNTED + NAMED)
    for line in sys.stdin:
        asked = json.loads(line)
        if "warm" in asked:
            for name in asked["warm"]:
                with suppress(BaseException):
                    importlib.import_module(name)
            gc.freeze()  # a child that looks for rubbish would copy all of what is shared
            answer: dict[str, object] = {"warm": len(sys.modules)}
        else:
            answer = _forked(asked, board)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _forked(asked: dict, board: mmap.mmap) -> dict[str, object]:
    board[:] = bytes(len(board))
    start = time.monotonic()
    child = os.fork()
    if not child:
        _child(asked, board)
    status, orphans = None, 0.0
    until = start + (asked.get("kill_after") or asked.get("limit") or 1800)
    while status is None and time.monotonic() < until:
        # Not SIGCHLD and a wait: the time of a kill is to be met within milliseconds.
        time.sleep(0.002)
        done, raw = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(raw) if done else None
        if status is None and asked.get("alone") and len(_group(child)) > asked["alone"]:
            os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            orphans = _left(child)
    seconds = time.monotonic() - start
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {
        "status": status,
        "seconds": seconds,
        "orphans": orphans,
        "steps": int.from_bytes(board[:COUNTED], "little"),
        "step": board[COUNTED:].rstrip(b"\0").decode("utf-8", "replace"),
    }


def _group(leader: int) -> list[int]:
    """Processes of a group that are alive."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, group = place.read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                found.append(int(place.parent.name))
    return found


def _left(leader: int) -> float:
    """Seconds until the last of a group was gone, of itself; at most a minute."""
    start = time.monotonic()
    while _group(leader) and time.monotonic() - start < 60:
        time.sleep(0.05)
    return time.monotonic() - start


def _child(asked: dict, board: mmap.mmap) -> None:
    code = 99
    try:
        os.setsid()
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
        if asked.get("largest"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (asked["largest"], resource.RLIM_INFINITY))
        if asked.get("clock"):
            _shift(asked["clock"])
        _count(asked["folder"], asked.get("die_at", 0), board)
        code = _entry(asked["entry"], asked["arguments"])
        if asked.get("modules"):
            Path(asked["modules"]).write_text(json.dumps(list(sys.modules)))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _entry(name: str, arguments: list[str]) -> int:
    module = importlib.import_module(name)
    if name == "src.run":
        sys.argv = ["src/run.py", *arguments]
        return int(module.main())
    return int(module.main(arguments))


def _count(folder: str, die_at: int, board: mmap.mmap) -> None:
    """Count each change that is about to be made to files; at the one before `die_at` it is the end."""
    made = 0

    def step(what: str) -> None:
        nonlocal made
        made += 1
        board[:COUNTED] = made.to_bytes(COUNTED, "little")
        board[COUNTED:] = what.encode()[:NAMED].ljust(NAMED, b"\0")
        if made == die_at:
            os.killpg(0, signal.SIGKILL)
            time.sleep(60)

    def here(path: object) -> bool:
        # What is removed from within an open folder is named by its last part alone.
        return isinstance(path, str) and (path.startswith(folder) or not path.startswith("/"))

    def audit(event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING and here(path):
                step(f"open {path}")
        elif event in CHANGES:
            paths = [os.fspath(path) for path in arguments[:2] if isinstance(path, str | os.PathLike)]
            if any(here(path) for path in paths):
                step(f"{event} {' '.join(paths)}")

    sys.addaudithook(audit)
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    event.listen(Engine, "commit", lambda _: step("commit"))
    synced = os.fsync

    def fsync(descriptor: int) -> None:
        step("fsync")
        synced(descriptor)

    os.fsync = fsync


def _shift(seconds: float) -> None:
    """Set this process's clock, as far as Python tells the time."""
    real, nanoseconds = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: nanoseconds() + int(seconds * 1e9)

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> datetime:
            return datetime.fromtimestamp(time.time(), UTC).replace(tzinfo=None)

    import datetime as module

    module.datetime = Shifted  # type: ignore[misc]


if __name__ == "__main__":
    main()
