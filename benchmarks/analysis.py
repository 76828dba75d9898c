"""Time each experiment from vectors in memory, beside bare products of the same shapes and a plain loop."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.sizes import BLOCK, TEMPLATES, Size
from benchmarks.stand_ins import paper_tables, protocol
from benchmarks.timing import Compared, in_turns, seconds_of

if TYPE_CHECKING:
    from torch import Tensor

# Of each peer: 1.6 times its seconds, or a thirtieth of them; of the largest experiment, and of 32 vectors.
ASKED = (1 / 1.6, 1 / 1.6, 30, None)
LARGEST = "faces_to_words"
# Columns of a bare product at a time, and targets of the plain loop, whose time is scaled up to all.
COLUMNS, LOOPED = 20_000, 12


def analysis(size: Size, exp: str, vectors: int = 1) -> list[Compared]:
    """Time one experiment without what its rho is worth, and its peers.

    Args:
        size: of the experiment.
        exp: its name.
        vectors: of an image.
    """
    what, run, x, y = _experiment(size, exp, vectors)
    pools = TEMPLATES if exp.endswith("_words") else 1
    peers: dict[str, Callable[[], float]] = {
        "bare product and torch.topk, float64": lambda: _bare(x, y, pools, size.k, "float64"),
        "bare product and torch.topk, float32": lambda: _bare(x, y, pools, size.k, "float32"),
        "numpy, a target at a time: float64 cosines, argsort": lambda: _loop(x, y, pools, size.k, "float64"),
        "the same of float32 unit vectors": lambda: _loop(x, y, pools, size.k, "float32"),
    }
    note = f"{_measure(run)[1]:.0f} MB above the vectors"
    own, *theirs = in_turns({"own": lambda: seconds_of(run), **peers}).values()
    wanted = ASKED if exp == LARGEST or vectors > 1 else [None] * len(ASKED)
    return [
        Compared(what, own, peer, seconds, asked, note)
        for peer, seconds, asked in zip(peers, theirs, wanted, strict=True)
    ]


def together(rows: list[Compared]) -> list[Compared]:
    """Sum up a model's experiments, beside the sum of each peer; what is asked of any is asked of all."""
    sums = []
    for peer in dict.fromkeys(row.peer for row in rows):
        own = [row for row in rows if row.peer == peer]
        seconds, theirs = sum(row.seconds for row in own), sum(row.peer_seconds for row in own)
        asked = next((row.asked for row in own if row.asked), None)
        sums.append(Compared(f"all {len(own)} experiments of a model", seconds, peer, theirs, asked))
    return sums


def alone(size: Size, exp: str) -> tuple[str, float, float]:
    """Measure one experiment by itself: name, seconds, peak memory above the vectors (10^6 bytes)."""
    what, run, *_ = _experiment(size, exp, 1)
    return what, *_measure(run)


def _experiment(size: Size, exp: str, vectors: int) -> tuple[str, Callable[[], object], Tensor, Tensor]:
    """Make an experiment: name, call, vectors of its targets and of its corpus."""
    from src.stimuli import IMAGE_ROLES, checked
    from src.studies.propagation import experiment

    chosen, frames = protocol(size.k), paper_tables(size)
    targets, corpus = (checked(role, frames[role], "stand-ins") for role in exp.split("_to_"))
    x, y = (
        _random(len(table.frame), vectors if table.role in IMAGE_ROLES else 1, size.width)
        for table in (targets, corpus)
    )
    several = f", {vectors} vectors an image" * (vectors > 1)
    what = f"{exp}: {len(x)} x {len(y)}, width {size.width}, k {size.k}{several}"
    return what, partial(experiment.run, targets, corpus, x, y, chosen, 0), x, y


def _measure(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a call, and the peak memory of the process above what it held (10^6 bytes)."""
    import resource

    import psutil

    # Not the peak so far: vectors take more to draw than to hold.
    before = psutil.Process().memory_info().rss
    seconds = seconds_of(run)
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before) / 1e6


def _random(count: int, vectors: int, width: int) -> Tensor:
    import torch

    generator = torch.Generator().manual_seed(count)
    shape = (count, width) if vectors == 1 else (count, vectors, width)
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def _bare(x: Tensor, y: Tensor, pools: int, k: int, name: str) -> float:
    import torch

    seconds, dtype = 0.0, getattr(torch, name)
    rows: Any = x.flatten(0, -2).to(dtype)
    for pool in y.chunk(pools):
        columns: Any = pool.flatten(0, -2).to(dtype)
        start = time.perf_counter()
        for block in rows.split(BLOCK):
            for tile in columns.split(COLUMNS):
                block @ tile.T
        seconds += time.perf_counter() - start
    near = torch.rand(min(BLOCK, len(x)), len(y) // pools, dtype=dtype)
    start = time.perf_counter()
    for _ in range(pools):
        for first in range(0, len(x), BLOCK):
            near[: len(x) - first].topk(k, dim=1)
    return seconds + time.perf_counter() - start


def _loop(x: Tensor, y: Tensor, pools: int, k: int, dtype: str) -> float:
    import numpy as np

    chosen = np.linspace(0, len(x) - 1, LOOPED).astype(int)
    parts = [part.numpy().astype(dtype) for part in y.chunk(pools)]
    start = time.perf_counter()
    for target in x[chosen].numpy().astype(parts[0].dtype):
        for part in parts:
            near = part @ target.T
            if dtype == "float64":
                near /= np.linalg.norm(part, axis=-1).reshape(*part.shape[:-1], *[1] * (target.ndim - 1))
                near /= np.linalg.norm(target, axis=-1)
            near = near.reshape(len(part), -1).max(axis=1)
            np.argsort(-near)[:k]
    return (time.perf_counter() - start) * len(x) / LOOPED
