"""A corpus of millions, streamed from disk through both scores: speed, memory, and whether it is exact.

python -m benchmarks.scale
python -m benchmarks.scale --items 30000000 --place /scratch
python -m benchmarks.scale --quick

Then a whole job, with the table of its corpus, which does not stream: bytes a row.

Vectors, rows and outcomes are mapped from files that are made anew and deleted afterwards; the vectors mean
nothing. Memory is what a process has of its own (RssAnon of Linux's /proc/self/status, sampled): clean pages
of mapped files are not counted, the kernel takes them back where somebody needs the room.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.corpora import CHUNK, GROUPS, WIDTH, mapped, write
from benchmarks.memory import forget, read_bytes, watched
from benchmarks.sizes import QUICK, Size
from benchmarks.stand_ins import paper_tables, protocol
from benchmarks.timing import in_fresh_process
from src.errors import replace_unprintable

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from src.studies.propagation.attributes import Pool

# Items that are retrieved; targets; those of them whose results are held against brute force.
K, TARGETS, EXACT = 500, 256, 3


def measure(place: Path, items: int, targets: int) -> Iterator[dict[str, Any]]:
    """Write a corpus, and measure tenth, third and all of it streamed, then jobs, each in a new process."""
    write(place, items)
    for share in (10, 3, 1):
        yield in_fresh_process(stream, place, max(1, items // share), targets, K, held=0)
    for share in (8, 4):
        yield in_fresh_process(job, place, max(1, items // share))


def stream(place: Path, items: int, targets: int, k: int, held: int) -> dict[str, Any]:
    """Compute both scores of some targets, with a corpus that is read from disk.

    Args:
        place: folder that `write` has filled.
        items: how many of the corpus.
        targets: how many.
        k: how many items are retrieved.
        held: bytes of float64 vectors beyond which a corpus is walked.

    Returns:
        what: it was, in words.
        seconds, cpu: of both scores, by the clock and of all cores.
        own_mb, mapped_mb: peak memory of the process's own, above that before, and in pages of files.
        read_mb: from the disk, as Linux counts it.
        exact: whether three targets' nearest items and scores are those of brute force.
    """
    import numpy as np
    import torch

    from src.configs import ProtocolConfig
    from src.studies.propagation.sc_eat import SC_EAT
    from src.studies.propagation.scores import Scores
    from src.studies.propagation.similarity_blocks import looks
    from src.studies.propagation.top_k import TopK

    corpus, pool = mapped(place, items, k)
    x = torch.randn(targets, WIDTH, generator=torch.Generator().manual_seed(2))
    retrieved = TopK([pool], np.empty(0, dtype=np.int64), np.empty((0, 1), dtype=np.int64))
    scores = Scores(x, corpus, [pool], SC_EAT, retrieved, ProtocolConfig(ddof=1))
    nearest, read = [], read_bytes()
    for path in place.iterdir():
        forget(path)
    with watched() as peak:
        start, cpu = time.perf_counter(), time.process_time()
        for look in looks(x, corpus, [pool], every=False, held=held):
            scores.see(look)
            assert look.nearest is not None
            nearest.append(look.nearest[: max(0, EXACT - look.block.start)])
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    exact = _exact(x[:EXACT].numpy(), corpus, pool, torch.cat(nearest).numpy(), scores)
    own_mb, mapped_mb, read_mb = peak["own"] / 1e6, peak["mapped"] / 1e6, (read_bytes() - read) / 1e6
    what = (
        f"{targets} x {items:,} from disk, width {WIDTH}, k {k}: {items * targets / cpu / 1e6:.0f} million a "
        f"CPU second, {mapped_mb:.0f} MB mapped, {read_mb:.0f} MB read, {'exact' if exact else 'WRONG'}"
    )
    sizes = {"own_mb": own_mb, "mapped_mb": mapped_mb, "read_mb": read_mb}
    return {"what": what, "seconds": seconds, "cpu": cpu, **sizes, "exact": exact}


def _exact(x: np.ndarray, corpus: Tensor, pool: Pool, nearest: np.ndarray, scores: Any) -> bool:
    """By numpy alone, one target at a time, all similarities in memory."""
    import numpy as np

    near = np.empty((len(x), len(corpus)))
    for start in range(0, len(corpus), CHUNK):
        items = corpus[start : start + CHUNK].numpy().astype(float)
        lengths = np.linalg.norm(items, axis=1)
        for row, target in zip(near, x.astype(float), strict=True):
            row[start : start + CHUNK] = (items @ target / lengths / np.linalg.norm(target)).round(12)
    found = []
    for number, row in enumerate(near):
        best = np.argsort(-row, kind="stable")[: pool.k]
        sets = [
            (row[a], row[b], np.concatenate([row[a], row[b]])) for a, b in zip(pool.a, pool.b, strict=True)
        ]
        effects = [(a.mean() - b.mean()) / both.std(ddof=1) for a, b, both in sets]
        found.append(
            np.array_equal(np.sort(best), nearest[number])
            and np.allclose(effects, scores.intrinsic[number], rtol=1e-9)
            and np.allclose(pool.outcomes[best].mean(axis=0), scores.extrinsic[number], rtol=1e-12)
        )
    return all(found)


def job(place: Path, items: int) -> dict[str, Any]:
    """A whole experiment, labels to faces without what its rho is worth, table of the faces included."""
    import pandas as pd
    import torch

    from src.stimuli import checked
    from src.studies.propagation import experiment

    labels = paper_tables(QUICK)["labels"]
    labels = labels[labels["template"] == labels["template"].iloc[0]]
    groups = sorted(labels["group"].unique())
    x = torch.nn.functional.normalize(torch.randn(len(labels), WIDTH), dim=-1)
    corpus, _ = mapped(place, items, K)
    with watched() as peak:
        start = time.perf_counter()
        faces = pd.DataFrame({"id": [f"f{number:09d}" for number in range(items)]})
        faces["group"] = [groups[number % GROUPS] for number in range(items)]
        faces["path"] = [f"faces/part{number // 10_000:05d}/f{number:09d}.jpg" for number in range(items)]
        faces["sha256"] = [f"{number:064x}" for number in range(items)]
        table = checked("faces", faces, "stand-ins")
        experiment.run(checked("labels", labels, "stand-ins"), table, x, corpus, protocol(K), 0)
        seconds = time.perf_counter() - start
    own = peak["own"]
    what = f"job: {len(labels)} labels to {items:,} faces, {own / items:.0f} bytes a face in memory"
    return {"what": what, "seconds": seconds, "own_mb": own / 1e6}


def main() -> None:
    """Print what is found, a line of JSON per size, each of a process of its own."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--items", type=int, help="of the largest corpus; default: ten million")
    parser.add_argument("--targets", type=int, default=TARGETS)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of them")
    parser.add_argument("--place", type=Path, help="folder with room for it: 600 bytes an item")
    given = parser.parse_args()
    # Whoever ends it finds room on the disk again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    items = given.items or (QUICK if given.quick else Size()).streamed
    with tempfile.TemporaryDirectory(dir=given.place) as name:
        for row in measure(Path(name), items, given.targets):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
