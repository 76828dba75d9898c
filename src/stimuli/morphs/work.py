"""Many files made in parallel, each whole or not there, so that the work can go on where it broke off."""

from __future__ import annotations

import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

BATCH = 16
# Lossless like every level; higher ones are slower by more than they save.
COMPRESSION = 1

Make = Callable[..., np.ndarray]


def files(
    make: Make, arguments: Sequence[tuple[Any, ...]], folder: Path, *, suffix: str, workers: int
) -> list[Path]:
    """Make one file per tuple of arguments; those that are there and whole are kept.

    Args:
        make: takes one tuple of arguments; gives a picture ([H, W, 3] uint8) where the suffix is
            `.png`, any numbers where it is `.npy`. With several workers it has to be picklable.
        arguments: one tuple per file.
        folder: of the files, which are numbered in the order of the arguments; made when absent. Its name
            stands beside the progress bar.
        suffix: `.png` or `.npy`.
        workers: processes of one thread each; 0 is one per core, 1 works in this process.

    Returns:
        The files, in the order of the arguments.
    """
    import joblib
    from rich.console import Console
    from rich.progress import track

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:05d}{suffix}" for number in range(len(arguments))]
    # No more workers than batches: one per core would be idle.
    count = min(workers or joblib.cpu_count(), math.ceil(len(paths) / BATCH))
    parallel = joblib.Parallel(
        max(count, 1),
        batch_size=BATCH,
        return_as="generator_unordered",
        initializer=_go_with,
        initargs=(os.getpid(),),
    )
    made = parallel(joblib.delayed(_file)(make, *job) for job in zip(arguments, paths, strict=True))
    for _ in track(made, folder.name, total=len(paths), console=Console(stderr=True)):
        pass
    return paths


def _go_with(owner: int) -> None:
    """End this process when its owner does: an idle worker would wait for more work from nobody."""

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def workers_end() -> Iterator[None]:
    """After this block no worker is left: idle ones would keep their memory, interrupted ones go on."""
    from joblib.externals.loky import get_reusable_executor

    try:
        yield
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _file(make: Make, arguments: tuple[Any, ...], path: Path) -> None:
    if not _whole(path):
        write(path, make(*arguments))


def write(path: Path, content: np.ndarray) -> None:
    """Write a file that appears under its name only when complete."""
    draft = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")
    try:
        if path.suffix == ".png":
            Image.fromarray(content).save(draft, compress_level=COMPRESSION)
        else:
            np.save(draft, content, allow_pickle=False)
        os.replace(draft, path)  # noqa: PTH105 - Path.replace is the same
    finally:
        draft.unlink(missing_ok=True)


def _whole(path: Path) -> bool:
    try:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                picture.verify()  # the checksums of its parts
            with Image.open(path) as picture:
                picture.load()
        else:
            np.load(path, allow_pickle=False)
    except (OSError, SyntaxError, ValueError, EOFError):
        return False
    return True
