"""Retrieve the k most similar items exactly on a device, time it, and compare its items with float64's."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmarks.sizes import Size
from benchmarks.stand_ins import unit_vectors
from benchmarks.timing import min_seconds, seconds_of
from src.metrics.retrieval import retrieve
from src.metrics.similarity import DECIMALS, cosines, normalise

# Number of values beyond the k largest that are searched for items within the slack of the k-th.
MARGIN = 64
# Number of targets in a block: with 120,000 items, their products take 0.7 GB.
BLOCK = 1500
# Sentences of a word, as in the paper; each of the first items of the corpus is repeated once, to make ties.
TEMPLATES, REPEATED_SHARE = 6, 0.1
# Number of targets whose results are compared with the CPU's.
CHECKED = 64


def retrieve_on_device(
    x: Float[Tensor, "n width"], y: Float[Tensor, "m width"], k: int, margin: int = MARGIN
) -> Int[Tensor, "n k"]:
    """Return `retrieve(cosines(x, y), k)`, computed where the vectors are.

    As in `src.metrics.retrieval.retrieve_screened`, which proves the slack, float32 products find the items
    that are certain to be among the k, and items within the slack of the k-th are compared in float64. A row
    with more such items than the margin holds is computed in float64 throughout.

    Args:
        x: float64 unit vectors of the targets.
        y: float64 unit vectors of the corpus.
        k: number of items, from 1 to M.
        margin: number of values beyond the k largest that are searched for such items.

    Returns:
        Positions [N, k], ascending; of equal items, the first.

    >>> import torch
    >>> retrieve_on_device(torch.eye(2).double()[:1], torch.eye(2).double(), 1)
    tensor([[0]])
    """
    if torch.get_float32_matmul_precision() != "highest":
        raise ValueError("the bound holds for products in float32: set_float32_matmul_precision('highest')")
    y_float32 = y.float()
    return torch.cat([_retrieve_block(block, y, y_float32, k, margin) for block in torch.split(x, BLOCK)])


def _retrieve_block(x: Tensor, y: Tensor, y_float32: Tensor, k: int, margin: int) -> Tensor:
    slack = 2 * (x.shape[1] + 8) * 2.0**-24
    values, positions = (x.float() @ y_float32.T).topk(min(k + margin, len(y)), dim=1)
    kth = values[:, k - 1 : k].clone()
    # Rows in which items near the k-th may lie beyond the margin.
    is_cut = (values[:, -1:] >= kth - slack) & (values.shape[1] < len(y))
    # Ascending positions: a stable sort leaves equal values in this order.
    positions, order = positions.sort(dim=1)
    values = values.gather(1, order)
    is_near = (values >= kth - slack) & (values <= kth + slack) & ~is_cut
    ranks = values.double().masked_fill_(values > kth + slack, math.inf)
    ranks.masked_fill_(values < kth - slack, -math.inf)
    rows, columns = is_near.nonzero(as_tuple=True)
    ranks[is_near] = (x[rows] * y[positions[rows, columns]]).sum(dim=1).round(decimals=DECIMALS)
    best = ranks.sort(dim=1, descending=True, stable=True).indices[:, :k]
    positions = positions.gather(1, best).sort(dim=1).values
    if is_cut.any():
        cut = is_cut.flatten()
        exact = (x[cut] @ y.T).round_(decimals=DECIMALS)
        first = exact.sort(dim=1, descending=True, stable=True).indices[:, :k]
        positions[cut] = first.sort(dim=1).values
    return positions


def measure_top_k(size: Size, device: torch.device) -> Iterator[dict[str, Any]]:
    """Time the top-k of the paper's largest experiment, and count targets with other items than in float64.

    The time is from float32 vectors on the device, as they are stored, to positions on the device.
    """
    rng = np.random.default_rng(0)
    targets, corpus = (
        torch.from_numpy(unit_vectors(rng, count, size.width))
        for count in (size.paper_faces, TEMPLATES * size.paper_words)
    )
    repeated = int(REPEATED_SHARE * len(corpus))
    corpus[-repeated:] = corpus[:repeated]
    x, y = targets.to(device), corpus.to(device)
    positions: list[Tensor] = []

    def retrieve_all() -> None:
        positions[:] = [retrieve_on_device(normalise(x), normalise(y), size.k)]
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    retrieve_all()  # not timed: libraries are loaded, memory is allocated
    seconds = min_seconds({"top-k": lambda: seconds_of(retrieve_all)})["top-k"]
    rows = torch.linspace(0, len(targets) - 1, min(CHECKED, len(targets))).long()
    expected = retrieve(cosines(normalise(targets[rows]), normalise(corpus)), size.k)
    wrong = int((positions[0].cpu()[rows] != expected).any(dim=1).sum())
    yield {
        "what": "top-k",
        "milliseconds": 1e3 * seconds,
        "targets": len(targets),
        "corpus": len(corpus),
        "checked_targets": len(rows),
        "wrong_targets": wrong,
    }
