"""What the benchmarks say of a machine's speed, and what these rates would say of the benchmarks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# Experiments of less are mostly what every experiment takes, however small.
LONG = 1.0
ANALYSIS = re.compile(r"(\d+) x (\d+), width (\d+), k (\d+)(?:, (\d+) vectors an image)?")


@dataclass(frozen=True)
class Rates:
    """Of one machine.

    Attributes:
        cpu: float32 GFLOP/s of a forward pass on two cores.
        gpu: bf16 TFLOP/s of a forward pass on one GPU.
        product: GFLOP/s of one core in products of matrices: float32, and float64 where A and B are met.
        cosine: seconds of a core that each cosine takes besides: rounding, the largest of an image's, top-k.
        retrieved: seconds of a core that each item retrieved for a target takes besides.
        row: bytes of memory that each row of a corpus takes: its table and what is kept of each item.
    """

    cpu: float = 250
    gpu: float = 400
    product: float = 120
    cosine: float = 13e-9
    retrieved: float = 55e-9
    row: float = 1000

    def analysis(self, similarities: float, width: int, vectors: int = 1, retrieved: float = 0) -> float:
        """Seconds of one core that similarities take, of images of so many vectors, and what is retrieved."""
        products = vectors * 2 * width / (1e9 * self.product)
        return similarities * (products + self.cosine) + retrieved * self.retrieved


@dataclass(frozen=True)
class Predicted:
    """One experiment of the benchmarks, in seconds: as measured, and as the rates say."""

    what: str
    measured: float
    said: float


@dataclass(frozen=True)
class Experiment:
    """One that was measured.

    Attributes:
        targets, corpus, width, k, vectors: its sizes; vectors of an image.
        seconds: of all threads together.
    """

    targets: int
    corpus: int
    width: int
    k: int
    vectors: int
    seconds: float

    def said(self, rates: Rates) -> float:
        """Seconds of one core by the rates."""
        similarities, retrieved = self.targets * self.corpus, self.targets * self.k
        return rates.analysis(similarities, self.width, self.vectors, retrieved)


def measured(folder: Path) -> Rates:
    """Rates from the results of `make bench`.

    The slowest forward pass; an experiment that grows with width; and, of what retrieves the largest share of
    its corpus, what these leave of its time. What none holds, a GPU's rate and a row's bytes, stays as it is.

    Raises:
        FileNotFoundError: `peers` or `growth` was not measured.
    """
    import numpy as np

    passes = [
        float(found[1])
        for row in _read(folder, "peers")["rows"]
        if (found := re.search(r"([\d.]+) TFLOP/s", row["note"]))
    ]
    grown = [one for _, one in _experiments(folder, "growth")]
    # Of the largest targets, corpus and k, so that widths alone differ.
    n, m, k = (max(getattr(one, size) for one in grown) for size in ("targets", "corpus", "k"))
    wide = [one for one in grown if (one.targets, one.corpus, one.k) == (n, m, k)]
    slope, rest = np.polyfit([one.width for one in wide], [one.seconds / (n * m) for one in wide], 1)
    rates = Rates(cpu=1000 * min(passes), product=float(2e-9 / slope), cosine=float(rest), retrieved=0)
    most = max((one for _, one in _experiments(folder, "peers")), key=lambda one: one.k / one.corpus)
    return replace(rates, retrieved=(most.seconds - most.said(rates)) / (most.targets * most.k))


def predicted(folder: Path, rates: Rates) -> Iterator[Predicted]:
    """Each experiment of `peers` that took a second or more, beside what the rates say of it."""
    threads = _read(folder, "peers")["machine"]["threads"]
    for what, one in _experiments(folder, "peers"):
        yield Predicted(what, one.seconds / threads, one.said(rates) / threads)


def _experiments(folder: Path, part: str) -> Iterator[tuple[str, Experiment]]:
    """Those of a second or more, once each: of peers there is a row for each."""
    found = _read(folder, part)
    sized = {row["what"]: (row["seconds"], sizes) for row in found["rows"] if (sizes := _sizes(row["what"]))}
    for what, (seconds, (n, m, width, k, vectors)) in sized.items():
        if seconds >= LONG:
            yield what, Experiment(n, m, width, k, vectors, seconds * found["machine"]["threads"])


def _read(folder: Path, part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{part}.json").read_text())
    return found


def _sizes(what: str) -> list[int]:
    """Targets, corpus, width, k, and vectors of an image, as a row of the benchmarks names them."""
    found = ANALYSIS.search(what)
    return [int(number or 1) for number in found.groups()] if found else []
