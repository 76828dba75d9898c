"""Each experiment from vectors in memory, beside the bare arithmetic of the same shapes and a plain loop.

python -m src.bench.analysis faces_to_words labels_to_faces
python -m src.bench.analysis faces_to_words --vectors 32 --size '{"paper_faces": 120, "width": 256}'
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from src.bench.sizes import BLOCK, TEMPLATES, Size
from src.bench.worth import EXPERIMENTS, STEPS, tables

if TYPE_CHECKING:
    from torch import Tensor

REPEATS = 3
# Columns of a bare product at a time, and targets of the plain loop, whose time is scaled up to all.
COLUMNS, LOOPED = 20_000, 12


def analysis(size: Size, exp: str, vectors: int = 1) -> list[dict[str, Any]]:
    """One experiment without what its rho is worth, and its peers: in turns, the least of several times.

    Args:
        size: of the experiment.
        exp: its name.
        vectors: of an image.

    Returns:
        Rows: `what`; `seconds`; `above_mb`, the peak of memory above the vectors (10^6 bytes, of the experiment).
    """
    import resource

    import torch

    from src import configs
    from src.experiments import propagation
    from src.jobs import Job
    from src.stimuli import checked

    asked = ["model=precomputed", "model.path=.", f"exp={exp}", f"protocol.k={size.k}"]
    asked += [f"protocol.{name}" for name in STEPS["scores"]]
    protocol = Job.of(*configs.compose(asked), "").cfg.protocol
    roles = exp.split("_to_")
    targets, corpus = (checked(role, tables(size)[role], "stand-ins") for role in roles)
    x, y = (
        _random(len(table.frame), vectors if table.role in ("faces", "scenes") else 1, size.width)
        for table in (targets, corpus)
    )
    pools = TEMPLATES if roles[1] == "words" else 1

    def scores() -> float:
        start = time.perf_counter()
        propagation.run(targets, corpus, x, y, protocol, 0)
        return time.perf_counter() - start

    peers = {
        "both scores, from vectors to results": scores,
        "bare product and torch.topk, float64": lambda: _bare(x, y, pools, size.k, torch.float64),
        "bare product and torch.topk, float32": lambda: _bare(x, y, pools, size.k, torch.float32),
        "numpy, one target at a time: float64 cosines, argsort": lambda: _loop(
            x, y, pools, size.k, lean=False
        ),
        "the same of float32 unit vectors": lambda: _loop(x, y, pools, size.k, lean=True),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = [
        {"what": f"{exp}: {what}", "seconds": peer(), "above_mb": _above(before)}
        for what, peer in peers.items()
    ]
    for _ in range(REPEATS - 1):
        for row, peer in zip(found, peers.values(), strict=True):
            row["seconds"] = min(row["seconds"], peer())
    return found


def _above(before: int) -> float:
    import resource

    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6


def _random(count: int, vectors: int, width: int) -> Tensor:
    import torch

    generator = torch.Generator().manual_seed(count)
    shape = (count, width) if vectors == 1 else (count, vectors, width)
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def _bare(x: Tensor, y: Tensor, pools: int, k: int, dtype: Any) -> float:
    import torch

    seconds = 0.0
    rows = x.flatten(0, -2).to(dtype)
    for pool in y.chunk(pools):
        columns = pool.flatten(0, -2).to(dtype)
        start = time.perf_counter()
        for block in rows.split(BLOCK):
            for tile in columns.split(COLUMNS):
                block @ tile.T
        seconds += time.perf_counter() - start
    near = torch.rand(min(BLOCK, len(x)), len(y) // pools, dtype=dtype)
    start = time.perf_counter()
    for _ in range(pools):
        for block in torch.arange(len(x)).split(BLOCK):
            near[: len(block)].topk(k, dim=1)
    return seconds + time.perf_counter() - start


def _loop(x: Tensor, y: Tensor, pools: int, k: int, lean: bool) -> float:
    import numpy as np

    chosen = np.linspace(0, len(x) - 1, LOOPED).astype(int)
    parts = [part.numpy().astype(np.float32 if lean else float) for part in y.chunk(pools)]
    start = time.perf_counter()
    for target in x[chosen].numpy().astype(parts[0].dtype):
        for part in parts:
            near = part @ target.T
            if not lean:
                near /= np.linalg.norm(part, axis=-1).reshape(*part.shape[:-1], *[1] * (target.ndim - 1))
                near /= np.linalg.norm(target, axis=-1)
            near = near.reshape(len(part), -1).max(axis=1)
            np.argsort(-near)[:k]
    return (time.perf_counter() - start) * len(x) / LOOPED


def main() -> None:
    """Print what is found, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m src.bench.analysis")
    parser.add_argument("exps", nargs="*", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--vectors", type=int, default=1)
    parser.add_argument("--size", type=json.loads, default={})
    asked = parser.parse_args()
    size = Size(**asdict(Size()) | asked.size)
    for exp in asked.exps:
        for row in analysis(size, exp, asked.vectors):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
