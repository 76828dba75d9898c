"""Time experiments on vectors in memory, and their peers: bare products of equal shapes, a plain loop."""

import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from benchmarks.sizes import Size
from benchmarks.stand_ins import paper_tables, protocol
from benchmarks.timing import MEMORY_UNIT, Comparison, min_seconds, seconds_of
from src.stimuli import IMAGE_ROLES, build_table
from src.studies.propagation import experiment

# Number of templates of a text; number of targets in a block of a bare product.
TEMPLATES, BLOCK = 6, 256
# Minimum speedups over the five peers of `analysis`, in their order (None: no limit), for the largest
# experiment and for images with several vectors.
MIN_SPEEDUPS = (1 / 1.6, 1 / 1.6, None, 30, None)
LARGEST = "faces_to_words"
# Columns of a bare product at a time; targets of the plain loop, whose time is scaled up to all targets.
COLUMNS, LOOPED = 20_000, 12


def analysis(size: Size, exp: str, vectors: int = 1) -> list[Comparison]:
    """Time an experiment `exp` without uncertainty, with a number of vectors of each image, and its peers."""
    what, run, x, y = _experiment(size, exp, vectors)
    pools = TEMPLATES if exp.endswith("_words") else 1
    peers: dict[str, Callable[[], float]] = {
        "bare product and torch.topk, float64": lambda: _bare(x, y, pools, size.k, "float64"),
        "bare product and torch.topk, float32": lambda: _bare(x, y, pools, size.k, "float32"),
        "bare product, float32": lambda: _bare(x, y, pools, 0, "float32"),
        "numpy, a target at a time: float64 cosines, argsort": lambda: _loop(x, y, pools, size.k, "float64"),
        "the same of float32 unit vectors": lambda: _loop(x, y, pools, size.k, "float32"),
    }
    note = f"{_megabytes(run):.0f} MB above the vectors"
    seconds, *peers_seconds = min_seconds({"run": lambda: seconds_of(run), **peers}).values()
    limits = MIN_SPEEDUPS if exp == LARGEST or vectors > 1 else [None] * len(MIN_SPEEDUPS)
    return [
        Comparison(what, seconds, peer, peer_seconds, limit, note)
        for peer, peer_seconds, limit in zip(peers, peers_seconds, limits, strict=True)
    ]


def sum_experiments(rows: list[Comparison]) -> list[Comparison]:
    """Sum the seconds of a model's experiments and of each peer; a sum has the limit of any of its rows."""
    sums = []
    for peer in dict.fromkeys(row.peer for row in rows):
        runs = [row for row in rows if row.peer == peer]
        seconds, peer_seconds = sum(row.seconds for row in runs), sum(row.peer_seconds for row in runs)
        limit = next((row.limit for row in runs if row.limit), None)
        sums.append(Comparison(f"all {len(runs)} experiments of a model", seconds, peer, peer_seconds, limit))
    return sums


def measure_experiment(size: Size, exp: str) -> tuple[str, float, float]:
    """Measure one experiment; return description, seconds, and peak memory above the vectors (10^6 bytes)."""
    what, run, *_ = _experiment(size, exp, vectors=1)
    start = time.perf_counter()
    megabytes = _megabytes(run)
    return what, time.perf_counter() - start, megabytes


def _experiment(size: Size, exp: str, vectors: int) -> tuple[str, Callable[[], object], Tensor, Tensor]:
    """Make an experiment; return its description, its call, and the vectors of its targets and corpus."""
    config, frames = protocol(size.k), paper_tables(size)
    targets, corpus = (build_table(role, frames[role], "stand-ins") for role in exp.split("_to_"))
    x, y = (
        _random(len(table.frame), vectors if table.role in IMAGE_ROLES else 1, size.width)
        for table in (targets, corpus)
    )
    suffix = f", {vectors} vectors an image" * (vectors > 1)
    what = f"{exp}: {len(x)} x {len(y)}, width {size.width}, k {size.k}{suffix}"
    return what, partial(experiment.run, targets, corpus, x, y, config, 0), x, y


def _megabytes(run: Callable[[], object]) -> float:
    """Return the peak memory of the process during a call above that before it (10^6 bytes)."""
    # The current memory, not the peak so far: drawing vectors takes more memory than they occupy.
    before = psutil.Process().memory_info().rss
    run()
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MEMORY_UNIT - before) / 1e6


def _random(count: int, vectors: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    shape = (count, width) if vectors == 1 else (count, vectors, width)
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def _bare(x: Tensor, y: Tensor, pools: int, k: int, dtype_name: str) -> float:
    """Time the matrix products of all targets with each pool, and `topk` of random values of that shape.

    With k = 0, time the products alone.
    """
    seconds, dtype = 0.0, getattr(torch, dtype_name)
    rows: Any = x.flatten(0, -2).to(dtype)
    for pool in y.chunk(pools):
        columns: Any = pool.flatten(0, -2).to(dtype)
        start = time.perf_counter()
        for block in rows.split(BLOCK):
            for tile in columns.split(COLUMNS):
                block @ tile.T
        seconds += time.perf_counter() - start
    if not k:
        return seconds
    values = torch.rand(min(BLOCK, len(x)), len(y) // pools, dtype=dtype)
    start = time.perf_counter()
    for _ in range(pools):
        for first in range(0, len(x), BLOCK):
            values[: len(x) - first].topk(k, dim=1)
    return seconds + time.perf_counter() - start


def _loop(x: Tensor, y: Tensor, pools: int, k: int, dtype: str) -> float:
    """Time numpy on a sample of targets, one after another, and scale the seconds up to all targets."""
    rows = np.linspace(0, len(x) - 1, LOOPED).astype(int)
    arrays = [pool.numpy().astype(dtype) for pool in y.chunk(pools)]
    start = time.perf_counter()
    for target in x[rows].numpy().astype(arrays[0].dtype):
        for pool in arrays:
            cosines = pool @ target.T
            if dtype == "float64":
                cosines /= np.linalg.norm(pool, axis=-1).reshape(*pool.shape[:-1], *[1] * (target.ndim - 1))
                cosines /= np.linalg.norm(target, axis=-1)
            cosines = cosines.reshape(len(pool), -1).max(axis=1)
            np.argsort(-cosines)[:k]
    return (time.perf_counter() - start) * len(x) / LOOPED
