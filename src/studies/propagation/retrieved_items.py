"""What is retrieved, so that a person can see it: the items that move a stratum's outcome most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.studies.propagation.attributes import Corpus
from src.studies.propagation.null_models import outcomes_of
from src.studies.propagation.similarity_blocks import Look
from src.studies.propagation.units import Stratum, Units

# Items shown of those that raise an outcome, and of those that lower it.
SHOWN = 15
COLUMNS = ["stratum", "item", "outcome", "share", "reference", "against", "contribution"]


class Tally:
    """How often each item of the corpus is retrieved, by stratum.

    Args:
        units, strata: of the experiment.
        corpus: what is retrieved from.
    """

    def __init__(self, units: Units, strata: Sequence[Stratum], corpus: Corpus) -> None:
        self._corpus, self._strata = corpus, strata
        # Targets of the same strata are counted together: a target belongs to one stratum, or to all.
        count = int(units.rows.max()) + 1
        member = np.zeros((count, len(strata)), dtype=bool)
        for number, stratum in enumerate(strata):
            member[units.rows[stratum.rows].reshape(-1), number] = True
        self._kinds, self._kind = np.unique(member, axis=0, return_inverse=True)
        self._counts = np.zeros((len(self._kinds), len(corpus.exchange.grid)), dtype=np.int64)

    def see(self, look: Look) -> None:
        """Count what is retrieved for the targets of a look."""
        assert look.nearest is not None
        unit = self._corpus.exchange.unit[self._corpus.pools[look.number].rows]
        flat = unit.take(look.nearest.numpy())
        flat += self._kind[look.block].reshape(-1, 1) * self._counts.shape[1]
        self._counts += np.bincount(flat.reshape(-1), minlength=self._counts.size).reshape(self._counts.shape)

    def table(self) -> pd.DataFrame:
        """The items that move each stratum's outcome most (columns: `COLUMNS`).

        `share` is the item's, of all that is retrieved for the stratum; `reference` that for all targets, or,
        where the stratum is all targets or their extremes, the share of each item alike. `contribution` =
        (share - reference) (outcome - the corpus's mean): over all items they sum to the difference of the
        mean outcomes.
        """
        counts, outcomes = self._counts.astype(float), outcomes_of(self._corpus)
        possible = retrievable(self._corpus)
        names = self._corpus.exchange.names
        # Of groups each has its own targets: they are compared with everybody's.
        compared = len(self._strata) > 1 and bool((self._kinds.sum(axis=1) <= 1).all())
        everyone = counts.sum(axis=0) / counts.sum()
        parts = []
        for number, stratum in enumerate(self._strata):
            own = counts[self._kinds[:, number]].sum(axis=0)
            if not own.sum():
                continue
            share = own / own.sum()
            reference = everyone if compared else possible / possible.sum()
            outcome = outcomes[:, stratum.content]
            contribution = (share - reference) * (outcome - outcome[possible].mean())
            order = np.lexsort([names, -contribution])
            order = order[possible[order]]
            shown = np.unique([*order[:SHOWN], *order[-SHOWN:]])
            rows = pd.DataFrame(
                {
                    "stratum": stratum.name,
                    "item": names[shown].astype(str),
                    "outcome": outcome[shown],
                    "share": share[shown],
                    "reference": reference[shown],
                    "against": "all targets" if compared else "corpus",
                    "contribution": contribution[shown],
                }
            )
            parts.append(rows.sort_values("contribution", ascending=False, kind="stable"))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def retrievable(corpus: Corpus) -> np.ndarray:
    """[exchange units] whether each can be retrieved."""
    found = np.zeros(len(corpus.exchange.grid), dtype=bool)
    for pool in corpus.pools:
        rows = pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]
        found[corpus.exchange.unit[rows]] = True
    return found
