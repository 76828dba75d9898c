"""Mean outcome of the k most similar items as extrinsic outcome (docs/methods.md, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from src.errors import NotApplicable
from src.metrics import mean_outcome
from src.studies.propagation.attributes import HELD_OUT, Corpus, Pool
from src.studies.propagation.measures import ExtrinsicOutcome
from src.studies.propagation.null_models import Alternative
from src.studies.propagation.similarity_blocks import Look
from src.studies.propagation.units import DECIMALS


class TopK:
    """Mean outcome of what is retrieved; how often each item is, for the sampled units.

    Args:
        pools: parts of the corpus.
        unit: row of the corpus -> its exchange unit.
        rows: [units, copies] of the targets that null models are computed on.
    """

    def __init__(self, pools: Sequence[Pool], unit: np.ndarray, rows: np.ndarray) -> None:
        self._outcomes = [torch.from_numpy(pool.outcomes) for pool in pools]
        self._units = [torch.from_numpy(unit[pool.rows]) for pool in pools] if rows.size else []
        # Target -> its sampled unit.
        self._owner = np.full(int(rows.max(initial=-1)) + 1, -1)
        self._owner[rows] = np.arange(len(rows))[:, None]
        shape = (len(rows), int(unit.max()) + 1) if rows.size else (0, 0)
        self._counts = torch.zeros(shape, dtype=torch.int32)
        self._retrieved = sum(pool.k for pool in pools) * rows.shape[1]
        self._unity = torch.ones(1, dtype=torch.int32)

    def see(self, look: Look) -> Tensor:
        """Return mean outcomes of what is retrieved, [targets, S]; count it for the sampled units."""
        assert look.nearest is not None
        owner = self._owner[look.block]
        if (sampled := np.flatnonzero(owner >= 0)).size:
            owners = torch.from_numpy(owner[sampled])
            retrieved = self._units[look.number][look.nearest[torch.from_numpy(sampled)]]
            flat = (owners[:, None] * self._counts.shape[1] + retrieved).reshape(-1)
            self._counts.view(-1).scatter_add_(0, flat, self._unity.expand(len(flat)))
        return mean_outcome(look.nearest, self._outcomes[look.number])

    def in_worlds(self, world: Alternative, content: int) -> Callable[[slice], np.ndarray]:
        """Return a function of sampled units: what is retrieved stays, the property is another one."""
        assert world.outcomes is not None
        outcomes = world.outcomes(content)

        def means(units: slice) -> np.ndarray:
            averages: np.ndarray = (self._counts[units].double() @ outcomes / self._retrieved).numpy()
            return averages.round(DECIMALS)

        return means


def scorer(corpus: Corpus, targets: Tensor, items: Tensor, rows: np.ndarray) -> TopK:  # noqa: ARG001
    """Return the scorer of an experiment."""
    return TopK(corpus.pools, corpus.exchange.unit, rows)


def check(corpus: Corpus) -> None:
    """Check that not everything would be retrieved.

    Raises:
        NotApplicable: k is no less than a pool.
    """
    protocol, role = corpus.protocol, corpus.table.role
    for pool in corpus.pools:
        if not 1 <= pool.k < pool.size:
            place = f" in the template {pool.template!r}" if pool.template else ""
            halved = " (half of it where attributes are held out)" if pool.k != protocol.k else ""
            limit = max(2, pool.size // 3) * (2 if halved else 1)
            raise NotApplicable(
                f"protocol.k={protocol.k}{halved} of {pool.size} {role}{place}: everything would be "
                f"retrieved and every outcome be equal. Set protocol.k to {limit} or less."
            )


def notes(corpus: Corpus) -> list[str]:
    """Say how much is retrieved, where attributes are held out or it is more than half."""
    remarks = []
    pool, role = min(corpus.pools, key=lambda pool: pool.size), corpus.table.role
    if corpus.protocol.attributes == HELD_OUT:
        place = " of each template" if pool.template else ""
        remarks.append(
            f"attributes are held out: {pool.k} retrieved of {pool.size} of {len(pool.rows)} {role}{place}"
        )
    if pool.k > pool.size / 2:
        remarks.append(f"k={pool.k} is above half of the {pool.size} {role} retrieved from")
    return remarks


TOP_K = ExtrinsicOutcome(
    labels={
        "valence": "mean valence of what is retrieved",
        "group": "share of the group in what is retrieved",
    },
    scorer=scorer,
    check=check,
    notes=notes,
    retrieves=True,
    fields=frozenset({"k"}),
)
