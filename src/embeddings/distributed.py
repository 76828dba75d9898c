"""The predict loop over several devices, a process each (trainer=ddp).

The processes are started here and not by Lightning: its launchers run the command line anew, or move the
weights through shared memory, and leave processes behind when the first is interrupted. Each is a fresh
interpreter that knows what it is handed and nothing else: no run, no database, no sweep. Lightning's strategy
`ddp` joins them on this machine, over a file instead of a port. They meet before the first batch and never
again; from then on this process watches them, and one that fails ends all.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch.multiprocessing.spawn import start_processes

from src import configs
from src.embeddings.predict import Rank, look
from src.embeddings.writer import VectorFile
from src.encoders import Network
from src.errors import InputError
from src.stimuli import Table

# Seconds in which the others may say themselves what went wrong.
GRACE = 1.0
LONG = timedelta(days=7)
REFUSED, FAILED, MARKS, MEETING = "refused", "failed", "marks", "meeting"


def predict(
    count: int,
    load: Callable[[], Network],
    table: Table,
    batch_size: int,
    trainer: configs.TrainerConfig,
    path: Path,
    store: Path,
) -> tuple[list[int], float]:
    """`src.embeddings.predict.predict` by several processes: the same bytes.

    Args:
        count: how many processes.
        load: gives the encoder; pickled by its name, for each of them reads the weights by itself.

    Raises:
        InputError: see there; or a process was killed.
        RuntimeError: a process failed.
    """
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="carryover-") as place:
        marks = Path(place, MARKS)
        marks.write_bytes(bytes(len(table.frame)))
        work = (load, table, batch_size, trainer, path, store)
        with _none_left():
            started = start_processes(  # type: ignore[no-untyped-call]
                _rank, (count, Path(place), _inherited(), work), count, join=False, start_method="spawn"
            )
            _watch(started.processes, Path(place), table.role)
        with safe_open(path, framework="np") as file:
            shape = tuple(file.get_slice("embedding").get_shape())
        # All that they wrote is seen here, on disk or not; the entry's seal syncs it.
        return VectorFile(path, shape, marks).close(), time.perf_counter() - start


@contextmanager
def _none_left() -> Iterator[None]:
    """No process that was started within the block outlives it."""
    before = {*multiprocessing.active_children()}
    try:
        yield
    finally:
        left = {*multiprocessing.active_children()} - before
        for process in left:
            process.kill()
        for process in left:
            process.join()


def _watch(processes: Sequence[BaseProcess], place: Path, role: str) -> None:
    """Wait until all are through, or until one is not to be.

    Raises:
        InputError: one met an input that cannot be used, or was killed.
        RuntimeError: one failed.
    """
    while running := [process for process in processes if process.exitcode is None]:
        if any(process.exitcode for process in processes):
            until = time.monotonic() + GRACE
            for process in running:
                process.join(max(0.0, until - time.monotonic()))
            break
        wait([process.sentinel for process in running])
    codes = [process.exitcode or 0 for process in processes]
    if refused := sorted(place.glob(f"{REFUSED}-*")):
        raise InputError(refused[0].read_text("utf-8"))
    # The others may have failed because one was killed, which then is the cause.
    killed = [number for number, code in enumerate(codes) if code < 0]
    if killed:
        number = killed[0]
        raise InputError(
            f"{role}: process {number + 1} of {len(codes)} was ended by {_name(-codes[number])} while it "
            "embedded them: memory, or room on the disk, may have run out. Nothing of it is kept; the same "
            "command embeds them anew. Choose fewer trainer.devices, or a smaller model.batch_size."
        )
    if any(codes):
        said = [path.read_text("utf-8") for path in sorted(place.glob(f"{FAILED}-*"))]
        raise RuntimeError(f"{role}: of {len(codes)} processes one failed\n" + "\n".join(said[:1]))


def _name(number: int) -> str:
    return signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"


def _inherited() -> tuple[int, int]:
    """What a process is told of this one: threads move the last bits of a sum; and what is to be said."""
    return torch.get_num_threads(), logging.getLogger().getEffectiveLevel()


def _rank(number: int, count: int, place: Path, inherited: tuple[int, int], work: tuple[Any, ...]) -> None:
    # Ended at once by Ctrl-C, and when the first process dies, also from within a library.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent and not parent.is_alive():
        return
    try:
        _share(number, count, place, inherited, *work)
    except InputError as error:
        _say(place / f"{REFUSED}-{number}", str(error))
    except Exception:
        _say(place / f"{FAILED}-{number}", traceback.format_exc())


def _say(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    sys.exit(1)


def _share(
    number: int,
    count: int,
    place: Path,
    inherited: tuple[int, int],
    load: Callable[[], Network],
    table: Table,
    batch_size: int,
    trainer: configs.TrainerConfig,
    path: Path,
    store: Path,
) -> None:
    threads, level = inherited
    torch.set_num_threads(threads)
    if number == 0:
        logging.basicConfig(level=level, format="%(message)s")
    # What Lightning takes for word from whoever starts its processes.
    os.environ.update(LOCAL_RANK=str(number), NODE_RANK="0")
    if sys.platform == "linux":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    # Gloo on GPUs, too: all that is ever sent are the weights, once, and some numbers. This process's death
    # is seen from outside, so nobody need give up waiting for the first to resize a million pictures.
    torch.distributed.init_process_group(
        "gloo", f"file://{place / MEETING}", LONG, world_size=count, rank=number
    )
    rank = Rank(number, count, place / MARKS)
    look(load(), table, batch_size, trainer, path, store, rank, devices=count, strategy="ddp")
