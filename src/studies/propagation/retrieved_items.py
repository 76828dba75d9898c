"""List the retrieved items that contribute most to the outcome of a stratum."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.studies.propagation.attributes import Corpus
from src.studies.propagation.null_models import outcomes_of
from src.studies.propagation.similarity_blocks import SimilarityBlock
from src.studies.propagation.units import Stratum, Units

# Maximum number of items listed with the largest contributions, and with the smallest.
MAX_ITEMS = 15
COLUMNS = ["stratum", "item", "outcome", "share", "reference", "against", "contribution"]


class Tally:
    """Counts of how often each item of the corpus is retrieved for the targets of each stratum."""

    def __init__(self, units: Units, strata: Sequence[Stratum], corpus: Corpus) -> None:
        self._corpus, self._strata = corpus, strata
        # Count per distinct row of the membership matrix: targets belong to one stratum or to all of them.
        n_targets = int(units.rows.max()) + 1
        is_member = np.zeros((n_targets, len(strata)), dtype=bool)
        for index, stratum in enumerate(strata):
            is_member[units.rows[stratum.rows].reshape(-1), index] = True
        self._memberships, self._membership_of = np.unique(is_member, axis=0, return_inverse=True)
        self._counts = np.zeros((len(self._memberships), len(corpus.exchange.grid)), dtype=np.int64)

    def add(self, block: SimilarityBlock) -> None:
        """Count the items retrieved for the targets of a block."""
        assert block.nearest is not None
        unit_of_item = self._corpus.exchange.unit_of_row[self._corpus.pools[block.pool_index].rows]
        flat_positions = unit_of_item.take(block.nearest.numpy())
        flat_positions += self._membership_of[block.targets].reshape(-1, 1) * self._counts.shape[1]
        counts = np.bincount(flat_positions.reshape(-1), minlength=self._counts.size)
        self._counts += counts.reshape(self._counts.shape)

    def build_table(self) -> pd.DataFrame:
        """Return the items that contribute most to each stratum's outcome (columns: `COLUMNS`).

        `share` is the item's share of all items retrieved for the stratum. `reference` is its share for all
        targets or, for one stratum or overlapping ones, 1 / number of retrievable items. `contribution` =
        (share - reference) (outcome - mean outcome of the corpus): over all items, contributions sum to the
        stratum's mean outcome minus that of the reference.
        """
        counts, outcomes = self._counts.astype(float), outcomes_of(self._corpus)
        is_retrievable = np.zeros(counts.shape[1], dtype=bool)
        for pool in self._corpus.pools:
            rows = pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]
            is_retrievable[self._corpus.exchange.unit_of_row[rows]] = True
        names = self._corpus.exchange.names
        # Several disjoint strata are compared with all targets; a single stratum and overlapping strata are
        # compared with the corpus.
        are_disjoint = len(self._strata) > 1 and bool((self._memberships.sum(axis=1) <= 1).all())
        all_shares = counts.sum(axis=0) / counts.sum()
        tables = []
        for index, stratum in enumerate(self._strata):
            stratum_counts = counts[self._memberships[:, index]].sum(axis=0)
            if not stratum_counts.sum():
                continue
            share = stratum_counts / stratum_counts.sum()
            reference = all_shares if are_disjoint else is_retrievable / is_retrievable.sum()
            outcome = outcomes[:, stratum.column]
            contribution = (share - reference) * (outcome - outcome[is_retrievable].mean())
            order = np.lexsort([names, -contribution])
            order = order[is_retrievable[order]]
            top_items = np.unique([*order[:MAX_ITEMS], *order[-MAX_ITEMS:]])
            columns = {"item": names.astype(str), "outcome": outcome, "share": share, "reference": reference}
            rows = pd.DataFrame(columns | {"contribution": contribution}).iloc[top_items]
            against = "all targets" if are_disjoint else "corpus"
            rows = rows.assign(stratum=stratum.name, against=against)[COLUMNS]
            tables.append(rows.sort_values("contribution", ascending=False, kind="stable"))
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)
