"""Attribute sets A and B, and the pools of the corpus in which they lie (docs/methods.md, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.stimuli import CARRIES, IMAGE_ROLES, Table
from src.studies.shared.exchange_units import Exchange, alike, exchange_of

VALENCE = "valence"
HELD_OUT = "held_out"
# Parts of a corpus whose attribute sets are held out; of units in neither comes neither.
SETS, RETRIEVED, NEITHER = 1, 2, 0


@dataclass(frozen=True)
class Pool:
    """A part of the corpus within which A and B lie and from which is retrieved.

    A text corpus that carries valence has one pool per template, any other corpus has one.

    Attributes:
        rows: positions [M] in the corpus's table.
        template: of the pool's sentences; None where the pool is the whole corpus.
        a, b: for each of S analyses, positions within the pool of the items of A and of B.
        outcomes: [M, S], what each item contributes to each outcome.
        k: how many items are retrieved; 0 where the outcome asks for none.
        retrievable: positions within the pool that are retrieved from; None: all.
    """

    rows: np.ndarray
    template: str | None
    a: list[np.ndarray]
    b: list[np.ndarray]
    outcomes: np.ndarray
    k: int
    retrievable: np.ndarray | None = None

    @property
    def size(self) -> int:
        """How many items are retrieved from."""
        return len(self.rows if self.retrievable is None else self.retrievable)

    @cached_property
    def attributes(self) -> np.ndarray:
        """Positions within the pool of the items of A and B, ascending."""
        return np.unique(np.concatenate([*self.a, *self.b]))


@dataclass(frozen=True)
class Corpus:
    """What is retrieved from, with its attribute sets.

    Attributes:
        table: the stimuli.
        pools: see `Pool`.
        exchange: its exchange units, and which of them the placebo exchanges.
        contents: what it carries, one per analysis of a target: its groups, or [None] for valence.
        drawable: which rows of the table A and B may be drawn from where it carries a group.
        protocol: sizes of the sets, and whether they are held out.
        seed: of the draw of A and B where it carries a group.
    """

    table: Table
    pools: list[Pool]
    exchange: Exchange
    contents: list[str | None]
    drawable: np.ndarray
    protocol: ProtocolConfig
    seed: int

    def redrawn(self, draw: int) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        """A and B of another draw: for each pool, positions per analysis.

        Of valence, a random half of each; of groups, sets of the same size from the same units.

        Args:
            draw: from 1; 0 is the one that is measured.
        """
        if self.contents == [None]:
            half = self.protocol.extremes // 2
            rng = np.random.default_rng([self.seed, 0, draw])
            a, b = (np.sort(rng.permutation(self.protocol.extremes)[:half]) for _ in "ab")
            return [([pool.a[0][a]], [pool.b[0][b]]) for pool in self.pools]
        (pool,) = self.pools
        return [_drawn(self.table, self.drawable, len(pool.a[0]), self.seed, draw)]


def corpus_of(table: Table, protocol: ProtocolConfig, seed: int) -> Corpus:
    """The pools of a corpus, with their attribute sets.

    Args:
        table: the stimuli that are retrieved.
        protocol: sizes of the sets, and whether they are held out of what is retrieved from.
        seed: of the draw of A and B where the corpus carries a group.

    Raises:
        NotApplicable: the corpus is too small for the sets.
    """
    exchange = exchange_of(table, seed)
    contents: list[str | None] = [None]
    part = np.full(len(table.frame), SETS | RETRIEVED)
    if CARRIES[table.role] == VALENCE:
        found = _valence_pools(table, protocol)
        if protocol.attributes == HELD_OUT:
            extreme = np.zeros(len(table.frame), dtype=int)
            extreme[np.concatenate([pool.rows[[*pool.a[0], *pool.b[0]]] for pool in found])] = SETS
            exchange = exchange.within([extreme[exchange.grid[:, 0]]])
    else:
        contents = [*table.groups]
        if protocol.attributes == HELD_OUT:
            exchange, part = _halved(table, exchange, seed)
        found = [_group_pool(table, protocol, seed, part)]
    return Corpus(table, found, exchange, contents, part & SETS > 0, protocol, seed)


def extremes(items: pd.DataFrame, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the `count` items of least and of greatest valence.

    Args:
        items: columns `valence` and `name`.
        name: column that orders items of equal valence, by code point.
        count: on each side.
    """
    order = np.array(items.reset_index(drop=True).sort_values([VALENCE, name], kind="stable").index)
    return order[:count], order[-count:]


def _valence_pools(corpus: Table, protocol: ProtocolConfig) -> list[Pool]:
    frame, n = corpus.frame, protocol.extremes
    image = corpus.role in IMAGE_ROLES
    name = "id" if image else "word"
    enough(corpus, protocol)
    parts: list[tuple[str | None, np.ndarray]] = [(None, np.arange(len(frame)))]
    if not image:
        parts = [
            (template, np.flatnonzero(frame["template"] == template))
            for template in sorted(frame["template"].unique())
        ]
    found = []
    for template, rows in parts:
        low, high = extremes(frame.iloc[rows], name, n)
        outcomes = frame[VALENCE].to_numpy(dtype=float)[rows, None]
        kept = None
        if protocol.attributes == HELD_OUT:
            kept = np.setdiff1d(np.arange(len(rows)), [*low, *high])
        found.append(Pool(rows, template, [high], [low], outcomes, protocol.k, kept))
    return found


def enough(table: Table, protocol: ProtocolConfig) -> None:
    """See that there are two extremes of valence.

    Raises:
        NotApplicable: there are too few items.
    """
    items = table.items
    if items < 2 * protocol.extremes:
        raise NotApplicable(
            f"{table.role}: {items} items, {2 * protocol.extremes} are needed for "
            f"protocol.extremes={protocol.extremes} on each side. "
            f"Set protocol.extremes={items // 2} or less, or bring more {table.role}."
        )


def _group_pool(corpus: Table, protocol: ProtocolConfig, seed: int, part: np.ndarray) -> Pool:
    own = corpus.frame["group"].to_numpy()
    allowed = part & SETS > 0
    sizes = [int(((own == group) & allowed).sum()) for group in corpus.groups]
    n = _set_size(corpus, sizes, protocol)
    a, b = _drawn(corpus, allowed, n, seed)
    outcomes = (own[:, None] == np.array(corpus.groups)[None, :]).astype(float)
    if protocol.attributes != HELD_OUT:
        return Pool(np.arange(len(own)), None, a, b, outcomes, protocol.k)
    kept = np.flatnonzero(part & RETRIEVED > 0)
    return Pool(np.arange(len(own)), None, a, b, outcomes, protocol.k // 2, kept)


def _drawn(
    corpus: Table, allowed: np.ndarray, n: int, seed: int, draw: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    own = corpus.frame["group"].to_numpy()
    shuffled = []
    for index, group in enumerate(corpus.groups):
        # The table is sorted by id, so are the rows of a group.
        rows = np.flatnonzero((own == group) & allowed)
        rng = np.random.default_rng([seed, index, *([draw] if draw else [])])
        shuffled.append(rows[rng.permutation(len(rows))])
    share = n // len(shuffled)
    b = np.concatenate([rows[-share:] for rows in shuffled])
    return [rows[:n] for rows in shuffled], [b] * len(shuffled)


def _halved(corpus: Table, exchange: Exchange, seed: int) -> tuple[Exchange, np.ndarray]:
    """Units of each group in two halves: A and B come from one, what is retrieved from the other.

    A phrase that shares its race word with one half and its gender word with the other is in neither.

    Returns:
        The exchange within the halves, and the part of each row of the corpus.
    """
    groups = pd.factorize(corpus.frame["group"], sort=True)[0][exchange.grid[:, 0]]
    parts = []
    for number, factor in enumerate(exchange.factors):
        part = np.empty(factor.size, dtype=int)
        for index, levels in enumerate(alike(exchange.levels, groups, number)):
            rng = np.random.default_rng([seed, index, 0, 1 + number])
            mixed = rng.permutation(levels)
            part[mixed[: len(mixed) // 2]], part[mixed[len(mixed) // 2 :]] = SETS, RETRIEVED
        parts.append(part)
    of_unit = np.stack([part[exchange.levels[:, number]] for number, part in enumerate(parts)])
    agreed = np.where((of_unit == of_unit[0]).all(axis=0), of_unit[0], NEITHER)
    return exchange.within(parts), agreed[exchange.unit]


def _set_size(corpus: Table, sizes: list[int], protocol: ProtocolConfig) -> int:
    groups, smallest = len(sizes), min(sizes)
    if groups < 2:
        raise NotApplicable(f"{corpus.role}: one group only, two are needed. Choose more groups.")
    n = groups * (min(protocol.set_size, smallest) // groups)
    # Among images A and B are disjoint; among sentences they overlap by necessity.
    while corpus.role in IMAGE_ROLES and n + n // groups > smallest:
        n -= groups
    if n < groups:
        halved = " to draw from, where attributes are held out" * (protocol.attributes == HELD_OUT)
        raise NotApplicable(
            f"{corpus.role}: the smallest of {groups} groups has {smallest} items{halved}, too few for "
            f"attribute sets that hold each group alike. Bring more {corpus.role}, or choose fewer groups."
        )
    return n
