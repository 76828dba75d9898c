"""Serve commands, each in a forked child that is killed at a given point: imports are paid for once.

The server is a separate process, because a fork of one that has computed would inherit locks of its threads.
It reads requests and writes answers: one JSON object per line.
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

# Bytes in which a child writes how many steps it has begun, and the name of the last.
COUNTED, NAMED = 8, 256
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "os.utime")


def main() -> None:
    """Serve requests until the input ends."""
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    board = mmap.mmap(-1, COUNTED + NAMED)
    for line in sys.stdin:
        request = json.loads(line)
        if "warm" in request:
            for name in request["warm"]:
                with suppress(BaseException):
                    importlib.import_module(name)
            gc.freeze()  # otherwise garbage collection in a child would copy all shared memory
            answer: dict[str, object] = {"warm": len(sys.modules)}
        else:
            answer = _forked(request, board)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _forked(request: dict, board: mmap.mmap) -> dict[str, object]:
    board[:] = bytes(len(board))
    start = time.monotonic()
    child = os.fork()
    if not child:
        _child(request, board)
    status, orphans = None, 0.0
    deadline = start + (request.get("kill_after") or request.get("limit") or 1800)
    while status is None and time.monotonic() < deadline:
        # Poll rather than wait for SIGCHLD: a kill has to be on time within milliseconds.
        time.sleep(0.002)
        done, raw = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(raw) if done else None
        if status is None and request.get("alone") and _group(child) > request["alone"]:
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


def _group(leader: int) -> int:
    """Count the processes of a group that are alive."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            count += int(group) == leader and state != "Z"
    return count


def _left(leader: int) -> float:
    """Return the seconds until the last of a group ends by itself; at most a minute."""
    start = time.monotonic()
    while _group(leader) and time.monotonic() - start < 60:
        time.sleep(0.05)
    return time.monotonic() - start


def _child(request: dict, board: mmap.mmap) -> None:
    code = 99
    try:
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
        if request.get("largest"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"], resource.RLIM_INFINITY))
        if request.get("clock"):
            _shift(request["clock"])
        _count(request["folder"], request.get("die_at", 0), board)
        module = importlib.import_module(request["entry"])
        sys.argv = ["src/run.py", *request["arguments"]]
        code = int(module.main() if request["entry"] == "src.run" else module.main(request["arguments"]))
        if request.get("modules"):
            Path(request["modules"]).write_text(json.dumps(list(sys.modules)))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _count(folder: str, die_at: int, board: mmap.mmap) -> None:
    """Count each change that is about to be made to files; kill the process before change `die_at`."""
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
        # A file that is removed relative to an open folder is named by its last part alone.
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
    """Shift the time that Python reports in this process."""
    real, nanoseconds = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: nanoseconds() + int(seconds * 1e9)

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.fromtimestamp(time.time(), tz)

        utcnow = classmethod(lambda cls: cls.now(UTC).replace(tzinfo=None))

    import datetime as module

    module.datetime = Shifted  # type: ignore[misc]


if __name__ == "__main__":
    main()
