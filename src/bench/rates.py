"""What the benchmarks say of a machine's speed, and what these rates would say of the benchmarks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Experiments of less are mostly what every experiment takes, however small.
LONG = 1.0
ANALYSIS = re.compile(r"(\d+) x (\d+), width (\d+), k \d+(?:, (\d+) vectors an image)?")


@dataclass(frozen=True)
class Rates:
    """Of one machine.

    Attributes:
        cpu: float32 GFLOP/s of a forward pass on two cores.
        gpu: bf16 TFLOP/s of a forward pass on one GPU.
        product: GFLOP/s of one core in products of matrices: float32, and float64 where A and B are met.
        cosine: seconds of a core that each cosine takes besides: rounding, the largest of an image's, top-k.
        row: bytes of memory that each row of a corpus takes: its table and what is kept of each item.
    """

    cpu: float = 140
    gpu: float = 400
    product: float = 52
    cosine: float = 12e-9
    row: float = 1000

    def analysis(self, similarities: float, width: int, vectors: int = 1) -> float:
        """Seconds of one core that similarities take, of images of so many vectors."""
        return similarities * vectors * (2 * width / (1e9 * self.product) + self.cosine)


@dataclass(frozen=True)
class Predicted:
    """One experiment of the benchmarks, in seconds: as measured, and as the rates say."""

    what: str
    measured: float
    said: float


def measured(folder: Path) -> Rates:
    """Rates from the results of `make bench`: the slowest forward pass; an experiment that grows with width.

    What these do not hold, a GPU's rate and a row's bytes, stays as it is.

    Raises:
        FileNotFoundError: `peers` or `growth` was not measured.
    """
    import numpy as np

    passes = [
        float(found[1])
        for row in _read(folder, "peers")["rows"]
        if (found := re.search(r"([\d.]+) TFLOP/s", row["note"]))
    ]
    growth = _read(folder, "growth")
    seconds = [(*sizes, row["seconds"]) for row in growth["rows"] if (sizes := _sizes(row["what"]))]
    # Of the largest targets and corpus, so that widths alone differ.
    n, m = (max(found[side] for found in seconds) for side in (0, 1))
    widths, times = np.array([(found[2], found[4]) for found in seconds if found[:2] == (n, m)]).T
    slope, rest = np.polyfit(widths, times * growth["machine"]["threads"] / (n * m), 1)
    return Rates(cpu=1000 * min(passes), product=float(2e-9 / slope), cosine=float(rest))


def predicted(folder: Path, rates: Rates) -> Iterator[Predicted]:
    """Each experiment of `peers` that took a second or more, beside what the rates say of it."""
    found = _read(folder, "peers")
    # A row per peer: the experiment is the same.
    for what, seconds in {row["what"]: row["seconds"] for row in found["rows"]}.items():
        if seconds >= LONG and (sizes := _sizes(what)):
            n, m, width, vectors = sizes
            said = rates.analysis(n * m, width, vectors) / found["machine"]["threads"]
            yield Predicted(what, seconds, said)


def _read(folder: Path, part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{part}.json").read_text())
    return found


def _sizes(what: str) -> tuple[int, int, int, int] | None:
    """Targets, corpus, width, and vectors of an image, as a row of the benchmarks names them."""
    found = ANALYSIS.search(what)
    if found is None:
        return None
    n, m, width, vectors = (int(number or 1) for number in found.groups())
    return n, m, width, vectors
