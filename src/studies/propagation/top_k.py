"""Score the mean outcome of the k most similar items (docs/methods.md, section 2)."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from src.errors import NotApplicable
from src.metrics import mean_outcome
from src.studies.propagation.attributes import HELD_OUT, Corpus, Pool
from src.studies.propagation.measures import ExtrinsicOutcome
from src.studies.propagation.null_models import NullModels
from src.studies.propagation.similarity_blocks import SimilarityBlock
from src.studies.propagation.units import DECIMALS


class TopK:
    """Mean outcome of the retrieved items; counts how often sampled targets retrieve each exchange unit.

    `unit_of_row` maps rows of the corpus to exchange units; `rows` [units, copies] are the sampled targets.
    """

    def __init__(self, pools: Sequence[Pool], unit_of_row: np.ndarray, rows: np.ndarray) -> None:
        self._outcomes = [torch.from_numpy(pool.outcomes) for pool in pools]
        self._item_units = [torch.from_numpy(unit_of_row[pool.rows]) for pool in pools] if rows.size else []
        # Sampled unit of each target, or -1.
        self._sampled_unit = np.full(int(rows.max(initial=-1)) + 1, -1)
        self._sampled_unit[rows] = np.arange(len(rows))[:, None]
        shape = (len(rows), int(unit_of_row.max()) + 1) if rows.size else (0, 0)
        self._counts = torch.zeros(shape, dtype=torch.int32)
        self._retrieved_per_target = sum(pool.k for pool in pools) * rows.shape[1]
        self._ones = torch.ones(1, dtype=torch.int32)

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return mean outcomes of the retrieved items, [targets, S]; count those of sampled targets."""
        assert block.nearest is not None
        unit_of_target = self._sampled_unit[block.targets]
        if (rows := np.flatnonzero(unit_of_target >= 0)).size:
            units = torch.from_numpy(unit_of_target[rows])
            retrieved_units = self._item_units[block.pool_index][block.nearest[torch.from_numpy(rows)]]
            flat_positions = (units[:, None] * self._counts.shape[1] + retrieved_units).reshape(-1)
            self._counts.view(-1).scatter_add_(0, flat_positions, self._ones.expand(len(flat_positions)))
        return mean_outcome(block.nearest, self._outcomes[block.pool_index])

    def score_nulls(self, nulls: NullModels, column: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function of sampled units: the retrieved items stay, their property is permuted."""
        assert nulls.outcomes is not None
        outcomes = nulls.outcomes(column)

        def score_units(units: np.ndarray) -> np.ndarray:
            averages = self._counts[torch.from_numpy(units)].double() @ outcomes / self._retrieved_per_target
            return np.asarray(averages).round(DECIMALS)

        return score_units


def check(corpus: Corpus) -> None:
    """Check that at least one item but not all are retrieved from each pool; else raise `NotApplicable`."""
    protocol, role = corpus.protocol, corpus.table.role
    for pool in corpus.pools:
        if not 1 <= pool.k < pool.size:
            location = f" in the template {pool.template!r}" if pool.template else ""
            halved = " (halved by protocol.attributes=held_out)" * (pool.k != protocol.k)
            if pool.k:
                problem = "all would be retrieved, and all outcomes would be equal"
                remedy = f"{max(1, pool.size // 3) * (2 if halved else 1)} or less"
            else:
                problem, remedy = "none would be retrieved", "2 or more"
            if pool.size < 2:
                remedy += f", and add more {role}"
            setting = f"protocol.k={protocol.k}{halved} of {pool.size} {role}{location}"
            raise NotApplicable(f"{setting}: {problem}. Set protocol.k to {remedy}.")


def notes(corpus: Corpus) -> list[str]:
    """Return remarks on the retrieved share if attributes are held out or the share is above half."""
    remarks = []
    pool, role = min(corpus.pools, key=lambda pool: pool.size), corpus.table.role
    if corpus.protocol.attributes == HELD_OUT:
        share = f"{pool.k} items are retrieved from {pool.size} of {len(pool.rows)} {role}"
        remarks.append(f"attributes are held out: {share}{' of each template' if pool.template else ''}")
    if pool.k > pool.size / 2:
        remarks.append(f"k={pool.k} is above half of the {pool.size} {role} that can be retrieved")
    return remarks


TOP_K = ExtrinsicOutcome(
    labels={
        "valence": "mean valence of the retrieved items",
        "group": "share of the group among the retrieved items",
    },
    scorer=lambda corpus, _, __, rows: TopK(corpus.pools, corpus.exchange.unit_of_row, rows),
    check=check,
    notes=notes,
    retrieves=True,
    fields=frozenset({"k"}),
)
