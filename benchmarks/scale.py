"""Measure both scores of millions of vectors on disk: speed, memory, exactness.

python -m benchmarks.scale
python -m benchmarks.scale --items 30000000 --place /scratch
python -m benchmarks.scale --quick

Jobs are then run to measure the memory of the table of a corpus, which is not streamed.

Random vectors, rows and outcomes are written to files, mapped, and deleted afterwards. Memory is a process's
anonymous memory (RssAnon in Linux's /proc/self/status, sampled). Clean pages of mapped files are counted
separately: the kernel reclaims them when memory is needed.
"""

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch
from torch import Tensor

from benchmarks.sizes import QUICK, Size
from benchmarks.stand_ins import CHUNK, GROUPS, WIDTH, load_mapped, paper_tables, protocol, write_corpus
from benchmarks.timing import in_fresh_process
from src.configs import ProtocolConfig
from src.errors import replace_unprintable
from src.stimuli import build_table
from src.studies.propagation import experiment
from src.studies.propagation.attributes import Pool
from src.studies.propagation.sc_eat import SC_EAT
from src.studies.propagation.scores import Associations, Outcomes
from src.studies.propagation.similarity_blocks import similarity_blocks
from src.studies.propagation.top_k import TopK

# Number of retrieved items, of targets, and of targets compared with brute force.
K, TARGETS, CHECKED = 500, 256, 3


def measure(folder: Path, items: int, targets: int) -> Iterator[dict[str, Any]]:
    """Write a corpus; stream a tenth, a third and all of it; run jobs on an eighth and a quarter of it.

    Each measurement runs in a new process.
    """
    write_corpus(folder, items)
    for divisor in (10, 3, 1):
        yield in_fresh_process(stream, folder, max(1, items // divisor), targets, K, max_bytes=0)
    for divisor in (8, 4):
        yield in_fresh_process(job, folder, max(1, items // divisor))


def stream(folder: Path, items: int, targets: int, k: int, max_bytes: int) -> dict[str, Any]:
    """Compute both scores of random targets with the first items of a corpus that `write_corpus` wrote.

    The corpus is read in tiles if its vectors in float64 take more than `max_bytes`; 0: always.

    Returns:
        what: description of the measurement.
        seconds, cpu: wall time, and CPU seconds of all cores.
        anonymous_mb, mapped_mb: peaks of anonymous memory and of pages of files, above those at the start.
        read_mb: megabytes read from the disk, as Linux counts them.
        exact: whether the retrieved items and scores of three targets equal those of brute force.
    """
    corpus, pool = load_mapped(folder, items, k)
    x = torch.randn(targets, WIDTH, generator=torch.Generator().manual_seed(2))
    retrieved = TopK([pool], np.empty(0, dtype=np.int64), np.empty((0, 1), dtype=np.int64))
    associations = Associations(x, corpus, [pool], SC_EAT, ProtocolConfig(ddof=1))
    outcomes = Outcomes(len(x), [pool], retrieved)
    nearest = []
    for path in folder.iterdir():
        with path.open("rb") as file:  # drop its pages from the page cache, so that it is read from disk
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    read_before = psutil.Process().io_counters().read_bytes
    with sample_memory() as peak:
        start, cpu = time.perf_counter(), time.process_time()
        for block in similarity_blocks(x, corpus, [pool], with_similarities=False, max_bytes=max_bytes):
            associations.add(block)
            outcomes.add(block)
            assert block.nearest is not None
            nearest.append(block.nearest[: max(0, CHECKED - block.targets.start)])
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    exact = _is_exact(
        x[:CHECKED].numpy(), corpus, pool, torch.cat(nearest).numpy(), associations.scores, outcomes.scores
    )
    anonymous_mb, mapped_mb = peak["anonymous"] / 1e6, peak["mapped"] / 1e6
    read_mb = (psutil.Process().io_counters().read_bytes - read_before) / 1e6
    outcome = "exact" if exact else "WRONG"
    what = (
        f"stream: {targets} x {items:,} from disk, width {WIDTH}, k {k}: "
        f"{items * targets / cpu / 1e6:.0f} million similarities a CPU second, "
        f"{mapped_mb:.0f} MB mapped, {read_mb:.0f} MB read, {outcome}"
    )
    sizes = {"anonymous_mb": anonymous_mb, "mapped_mb": mapped_mb, "read_mb": read_mb}
    return {"what": what, "seconds": seconds, "cpu": cpu, **sizes, "exact": exact}


def _is_exact(
    x: np.ndarray,
    corpus: Tensor,
    pool: Pool,
    nearest: np.ndarray,
    associations: np.ndarray,
    outcomes: np.ndarray,
) -> bool:
    """Return whether items and scores equal those of numpy, with all similarities of a target in memory."""
    similarities = np.empty((len(x), len(corpus)))
    for start in range(0, len(corpus), CHUNK):
        items = corpus[start : start + CHUNK].numpy().astype(float)
        lengths = np.linalg.norm(items, axis=1)
        for row, target in zip(similarities, x.astype(float), strict=True):
            row[start : start + CHUNK] = (items @ target / lengths / np.linalg.norm(target)).round(12)
    are_equal = []
    for number, row in enumerate(similarities):
        best = np.argsort(-row, kind="stable")[: pool.k]
        groups = [
            (row[a], row[b], np.concatenate([row[a], row[b]])) for a, b in zip(pool.a, pool.b, strict=True)
        ]
        effects = [(a.mean() - b.mean()) / union.std(ddof=1) for a, b, union in groups]
        are_equal.append(
            np.array_equal(np.sort(best), nearest[number])
            and np.allclose(effects, associations[number], rtol=1e-9)
            and np.allclose(pool.outcomes[best].mean(axis=0), outcomes[number], rtol=1e-12)
        )
    return all(are_equal)


def job(folder: Path, items: int) -> dict[str, Any]:
    """Run `labels_to_faces` without draws; time and memory include those of making the table of faces."""
    labels = paper_tables(QUICK)["labels"]
    labels = labels[labels["template"] == labels["template"].iloc[0]]
    groups = sorted(labels["group"].unique())
    x = torch.nn.functional.normalize(torch.randn(len(labels), WIDTH), dim=-1)
    corpus, _ = load_mapped(folder, items, K)
    with sample_memory() as peak:
        start = time.perf_counter()
        faces = pd.DataFrame({"id": [f"f{number:09d}" for number in range(items)]})
        faces["group"] = [groups[number % GROUPS] for number in range(items)]
        faces["path"] = [f"faces/part{number // 10_000:05d}/f{number:09d}.jpg" for number in range(items)]
        faces["sha256"] = [f"{number:064x}" for number in range(items)]
        table = build_table("faces", faces, "stand-ins")
        experiment.run(build_table("labels", labels, "stand-ins"), table, x, corpus, protocol(K), 0)
        seconds = time.perf_counter() - start
    size = peak["anonymous"]
    what = f"job: {len(labels)} labels to {items:,} faces, {size / items:.0f} bytes a face in memory"
    return {"what": what, "seconds": seconds, "anonymous_mb": size / 1e6}


def resident() -> dict[str, int]:
    """Return the bytes of this process's anonymous memory and of its pages of mapped files."""
    used = psutil.Process().memory_info()
    return {"anonymous": used.rss - used.shared, "mapped": used.shared}


@contextmanager
def sample_memory() -> Iterator[dict[str, int]]:
    """Sample `resident` every hundredth of a second; yield its peaks above the values at the start."""
    before, done = resident(), threading.Event()
    peak = dict.fromkeys(before, 0)

    def watch() -> None:
        while not done.wait(0.01):
            for kind, size in resident().items():
                peak[kind] = max(peak[kind], size - before[kind])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def main() -> None:
    """Print a line of JSON per measurement, each of a separate process."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--items", type=int, help="items of the largest corpus (default: 10,000,000)")
    parser.add_argument("--targets", type=int, default=TARGETS, help="number of targets")
    parser.add_argument("--quick", action="store_true", help="use a fiftieth of the items")
    parser.add_argument("--place", type=Path, help="folder for the corpus, which takes 600 bytes per item")
    options = parser.parse_args()
    # Remove the corpus when the process is terminated.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    items = options.items or (QUICK if options.quick else Size()).streamed
    with tempfile.TemporaryDirectory(dir=options.place) as name:
        for row in measure(Path(name), items, options.targets):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
