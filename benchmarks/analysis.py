"""Each experiment from vectors in memory, beside the bare arithmetic of the same shapes and a plain loop.

python -m benchmarks.analysis faces_to_words labels_to_faces
python -m benchmarks.analysis faces_to_words --vectors 32 --size '{"paper_faces": 120, "width": 256}'
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.paper_sizes import EXPERIMENTS, protocol, tables
from benchmarks.sizes import BLOCK, TEMPLATES, Size
from benchmarks.timing import Compared, in_turns, seconds_of, told
from src.errors import replace_unprintable

if TYPE_CHECKING:
    from torch import Tensor

# Of each peer: 1.6 times its seconds, or a thirtieth of them; of the largest experiment, and of 32 vectors.
ASKED = (1 / 1.6, 1 / 1.6, 30, None)
LARGEST = "faces_to_words"
# Columns of a bare product at a time, and targets of the plain loop, whose time is scaled up to all.
COLUMNS, LOOPED = 20_000, 12


def analysis(size: Size, exp: str, vectors: int = 1) -> list[Compared]:
    """One experiment without what its rho is worth, and its peers.

    Args:
        size: of the experiment.
        exp: its name.
        vectors: of an image.
    """
    import psutil

    run, x, y = _experiment(size, exp, vectors)
    pools = TEMPLATES if exp.endswith("_words") else 1
    peers: dict[str, Callable[[], float]] = {
        "bare product and torch.topk, float64": lambda: _bare(x, y, pools, size.k, "float64"),
        "bare product and torch.topk, float32": lambda: _bare(x, y, pools, size.k, "float32"),
        "numpy, a target at a time: float64 cosines, argsort": lambda: _loop(x, y, pools, size.k, "float64"),
        "the same of float32 unit vectors": lambda: _loop(x, y, pools, size.k, "float32"),
    }
    # Not the peak so far: vectors take more to draw than to hold.
    before = psutil.Process().memory_info().rss / 1e6
    run()
    note = f"{_peak() - before:.0f} MB above the vectors"
    own, *theirs = in_turns({"own": lambda: seconds_of(run), **peers}).values()
    wanted = ASKED if exp == LARGEST or vectors > 1 else [None] * len(ASKED)
    return [
        Compared(_what(size, exp, vectors, x, y), own, peer, seconds, asked, note)
        for peer, seconds, asked in zip(peers, theirs, wanted, strict=True)
    ]


def together(rows: list[Compared]) -> list[Compared]:
    """All experiments of a model, beside the sum of each peer; what is asked of any is asked of all."""
    found = []
    for peer in dict.fromkeys(row.peer for row in rows):
        own = [row for row in rows if row.peer == peer]
        seconds, theirs = sum(row.seconds for row in own), sum(row.peer_seconds for row in own)
        asked = next((row.asked for row in own if row.asked), None)
        found.append(Compared(f"all {len(own)} experiments of a model", seconds, peer, theirs, asked))
    return found


def alone(size: Size, exp: str, vectors: int = 1) -> tuple[str, float, float]:
    """One experiment by itself: what it was, its seconds, its peak of memory above the vectors (MB)."""
    import psutil

    run, x, y = _experiment(size, exp, vectors)
    before = psutil.Process().memory_info().rss / 1e6
    seconds = seconds_of(run)
    return _what(size, exp, vectors, x, y), seconds, _peak() - before


def _what(size: Size, exp: str, vectors: int, x: Tensor, y: Tensor) -> str:
    several = f", {vectors} vectors an image" * (vectors > 1)
    return f"{exp}: {len(x)} x {len(y)}, width {size.width}, k {size.k}{several}"


def _experiment(size: Size, exp: str, vectors: int) -> tuple[Callable[[], object], Tensor, Tensor]:
    """The experiment, and the vectors of its targets and of its corpus."""
    from src.stimuli import IMAGE_ROLES, checked
    from src.studies.propagation import experiment

    chosen, frames = protocol(size.k), tables(size)
    targets, corpus = (checked(role, frames[role], "stand-ins") for role in exp.split("_to_"))
    x, y = (
        _random(len(table.frame), vectors if table.role in IMAGE_ROLES else 1, size.width)
        for table in (targets, corpus)
    )
    return lambda: experiment.run(targets, corpus, x, y, chosen, 0), x, y


def _peak() -> float:
    import resource

    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


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


def main() -> None:
    """Print what is found, as JSON."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysis")
    parser.add_argument("exps", nargs="*", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--vectors", type=int, default=1)
    parser.add_argument("--size", type=json.loads, default={})
    parser.add_argument("--alone", action="store_true", help="without its peers")
    asked = parser.parse_args()
    size = Size(**asdict(Size()) | asked.size)
    for exp in asked.exps:
        if asked.alone:
            print(json.dumps(alone(size, exp, asked.vectors)))
            continue
        told(analysis(size, exp, asked.vectors))


if __name__ == "__main__":
    main()
