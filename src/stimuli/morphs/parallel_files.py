"""Make files in parallel, each written atomically, so that interrupted work can resume."""

import math
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

BATCH_SIZE = 16  # files per batch of a worker
PNG_LEVEL = 1  # compression level of PNG; higher levels take much more time and save little space

# Function that computes the content of a file.
Make = Callable[..., np.ndarray]


def make_files(
    make: Make, arguments: Sequence[tuple[Any, ...]], folder: Path, *, suffix: str, workers: int
) -> list[Path]:
    """Make a file for each tuple of arguments, unless it is intact already; return the paths, in order.

    Args:
        make: function of the arguments that returns the content: a picture [H, W, 3] uint8 for the suffix
            `.png`, any array for `.npy`. It is pickled for other processes.
        arguments: arguments of `make` for each file.
        folder: folder of the files, which are numbered; its name labels the progress bar.
        suffix: `.png` or `.npy`.
        workers: number of processes, with one thread each: 0 for one per core, 1 for only this process.
    """
    import joblib
    from rich.console import Console
    from rich.progress import track

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:05d}{suffix}" for number in range(len(arguments))]
    # More workers than batches would be idle.
    processes = min(workers or joblib.cpu_count(), math.ceil(len(paths) / BATCH_SIZE))
    parallel = joblib.Parallel(
        max(processes, 1),
        batch_size=BATCH_SIZE,
        return_as="generator_unordered",
        initializer=_exit_with_owner,
        initargs=(os.getpid(),),
    )
    results = parallel(joblib.delayed(_make_file)(make, *job) for job in zip(arguments, paths, strict=True))
    for _ in track(results, folder.name, total=len(paths), console=Console(stderr=True)):
        pass
    return paths


def _exit_with_owner(owner: int) -> None:
    """Exit this worker when the process with the id `owner` exits, as an idle worker would wait forever."""
    # Ctrl-C reaches all processes of a terminal. Workers ignore it, as their owner stops them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def stop_workers_on_exit() -> Iterator[None]:
    """Stop all workers after the block, as idle or interrupted workers would continue to occupy memory."""
    from joblib.externals.loky import get_reusable_executor

    try:
        yield
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _make_file(make: Make, arguments: tuple[Any, ...], path: Path) -> None:
    if not _is_intact(path):
        write_file(path, make(*arguments))


def write_file(path: Path, content: np.ndarray) -> None:
    """Write a file atomically: it appears under its name only when it is complete."""
    draft = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")
    try:
        if path.suffix == ".png":
            Image.fromarray(content).save(draft, compress_level=PNG_LEVEL)
        else:
            np.save(draft, content, allow_pickle=False)
        os.replace(draft, path)  # noqa: PTH105 - Path.replace is the same
    finally:
        draft.unlink(missing_ok=True)


def _is_intact(path: Path) -> bool:
    try:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                picture.verify()  # checksums of the chunks
            with Image.open(path) as picture:
                picture.load()
        else:
            np.load(path, allow_pickle=False)
    except (OSError, SyntaxError, ValueError, EOFError):
        return False
    return True
