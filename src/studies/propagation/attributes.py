"""Build the pools of a corpus, with their attribute sets A and B (docs/methods.md, section 2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.stimuli import CARRIES, IMAGE_ROLES, Table
from src.studies.propagation.corpus_halves import FIRST, SECOND, halve, split_units
from src.studies.shared.exchange_units import Exchange, exchange_of

VALENCE = "valence"
HELD_OUT = "held_out"
# Use of a part of a corpus, in bits: A and B are drawn from it, items are retrieved from it, or neither. With
# held-out attribute sets, these are the halves of the corpus; without, the whole corpus has both bits.
SETS, RETRIEVED, NEITHER = FIRST, SECOND, 0
# Positions within a pool of A, and of B, for each of the `Corpus.properties`.
SetPair = tuple[list[np.ndarray], list[np.ndarray]]


@dataclass(frozen=True)
class Pool:
    """Part of the corpus that contains A and B and from which items are retrieved.

    A text corpus that carries valence has one pool per template, any other corpus has one pool. A, B and
    `retrievable` are positions within the pool.
    """

    rows: np.ndarray  # positions [M] in the corpus's table
    template: str | None  # template of the pool's sentences; None if the pool is the entire corpus
    a: list[np.ndarray]  # [n] for each of the S `Corpus.properties`
    b: list[np.ndarray]
    outcomes: np.ndarray  # [M, S] valence of each item, or 1 for a member of the group and 0 for others
    k: int  # number of retrieved items; 0 for an outcome without retrieval
    retrievable: np.ndarray | None = None  # None: all items

    @property
    def size(self) -> int:
        """Return the number of items that can be retrieved."""
        return len(self.rows if self.retrievable is None else self.retrievable)

    @cached_property
    def attributes(self) -> np.ndarray:
        """Return the positions within the pool of the items of A and B, ascending."""
        return np.unique(np.concatenate([*self.a, *self.b]))


@dataclass(frozen=True)
class Corpus:
    """Corpus to retrieve from, with its attribute sets."""

    table: Table
    pools: list[Pool]
    exchange: Exchange  # units, and blocks within which the placebo exchanges them
    properties: list[str | None]  # properties that the corpus carries: its groups, or [None] for valence
    drawable: np.ndarray  # mask of the rows from which A and B are drawn where the corpus carries a group
    protocol: ProtocolConfig
    seed: int  # seed of all draws on this corpus

    def redraw(self, split: int) -> list[list[SetPair]]:
        """Return A and B from each half of a split (its number, from 1), for each pool.

        The halves share no cluster: for valence they are halves of A and B, for groups sets drawn from
        either half of the corpus, as large as both halves allow. Empty where a half is too small.
        """
        halves = self._halved_extremes if self.properties == [None] else self._sets_from_halves
        return [*halves(split)]

    def _halved_extremes(self, split: int) -> Iterator[list[SetPair]]:
        (factor,) = self.exchange.factors
        cluster = factor.clusters[self.exchange.unit_of_row]
        pool = self.pools[0]  # the others have the same words
        in_a, in_b = (
            np.isin(np.arange(len(factor.signatures)), cluster[pool.rows[sets[0]]])
            for sets in (pool.a, pool.b)
        )
        signatures = [(bool(a), bool(b)) if a or b else None for a, b in zip(in_a, in_b, strict=True)]
        half_of_row = halve(signatures, self.seed, split, 0)[cluster]
        for half in (FIRST, SECOND):
            pairs = []
            for pool in self.pools:
                a, b = (sets[0][half_of_row[pool.rows[sets[0]]] == half] for sets in (pool.a, pool.b))
                pairs.append(([a], [b]))
            if all(len(a[0]) and len(b[0]) for a, b in pairs):
                yield pairs

    def _sets_from_halves(self, split: int) -> Iterator[list[SetPair]]:
        _, halves = split_units(self.table, self.exchange, self.seed, split, self.drawable)
        groups = self.table.frame["group"].to_numpy()
        sizes = [
            ((groups == group) & (halves == half)).sum()
            for group in self.properties
            for half in (FIRST, SECOND)
        ]
        n = _largest_size(self.table, int(min(sizes)), self.protocol)
        if n < len(self.properties):
            return
        for half in (FIRST, SECOND):
            yield [_draw(self.table, halves == half, n, self.seed, 2 * split + half)]


def corpus_of(table: Table, protocol: ProtocolConfig, seed: int) -> Corpus:
    """Build the pools of a corpus, with their attribute sets; raise `NotApplicable` if it is too small."""
    return subcorpus_of(table, exchange_of(table, seed), protocol, seed, np.full(len(table.frame), True))


def subcorpus_of(
    table: Table, exchange: Exchange, protocol: ProtocolConfig, seed: int, among: np.ndarray
) -> Corpus:
    """Build the pools of a part of a corpus, given by a mask of its rows; A and B lie in this part.

    `exchange` is that of the corpus. Raise `NotApplicable` if the part is too small.
    """
    properties: list[str | None] = [None]
    row_parts = np.where(among, SETS | RETRIEVED, NEITHER)
    if CARRIES[table.role] == VALENCE:
        pools = _valence_pools(table, protocol, exchange, among)
        if protocol.attributes == HELD_OUT:
            parts = np.full(len(exchange.grid), NEITHER)
            for pool in pools:
                parts[exchange.unit_of_row[pool.rows[pool.retrievable]]] = RETRIEVED
            exchange = exchange.restrict([parts])
    else:
        properties = [*table.groups]
        if protocol.attributes == HELD_OUT:
            levels, row_parts = split_units(table, exchange, seed, among=among)
            exchange = exchange.restrict(levels)
        pools = [_group_pool(table, protocol, seed, among, row_parts)]
    return Corpus(table, pools, exchange, properties, row_parts & SETS > 0, protocol, seed)


def extremes(items: pd.DataFrame, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the `count` items of lowest and highest valence; ties in order of column `name`."""
    order = np.array(items.reset_index(drop=True).sort_values([VALENCE, name], kind="stable").index)
    return order[:count], order[-count:]


def _valence_pools(
    corpus: Table, protocol: ProtocolConfig, exchange: Exchange, among: np.ndarray
) -> list[Pool]:
    frame, n = corpus.frame, protocol.extremes
    cluster = exchange.factors[0].clusters[exchange.unit_of_row]
    is_image = corpus.role in IMAGE_ROLES
    name, templates = ("id", None) if is_image else ("word", frame["template"].to_numpy())
    check_size(corpus.role, frame[name][among].nunique(), protocol)
    pools = []
    for template in [None] if templates is None else sorted(np.unique(templates[among])):
        rows = np.flatnonzero(among if templates is None else among & (templates == template))
        low, high = extremes(frame.iloc[rows], name, n)
        outcomes = frame[VALENCE].to_numpy(dtype=float)[rows, None]
        retrievable = None
        if protocol.attributes == HELD_OUT:
            # All that share a cluster with an extreme leave with it.
            retrievable = np.flatnonzero(~np.isin(cluster[rows], cluster[rows[[*low, *high]]]))
        pools.append(Pool(rows, template, [high], [low], outcomes, protocol.k, retrievable))
    return pools


def check_size(role: str, items: int, protocol: ProtocolConfig) -> None:
    """Check that a role has enough items for two extremes of valence."""
    extreme = protocol.extremes
    if items < 2 * extreme:
        raise NotApplicable(
            f"{role}: protocol.extremes={extreme} on each side needs {2 * extreme} items, got {items}. "
            f"Set protocol.extremes={items // 2} or less, or add more {role}."
        )


def _group_pool(
    corpus: Table, protocol: ProtocolConfig, seed: int, among: np.ndarray, row_parts: np.ndarray
) -> Pool:
    is_member = corpus.frame["group"].to_numpy()[:, None] == np.array(corpus.groups)
    drawable, rows = row_parts & SETS > 0, np.flatnonzero(among)
    n = _set_size(corpus, int(is_member[drawable].sum(axis=0).min()), protocol)
    drawn_a, (drawn_b, *_) = _draw(corpus, drawable, n, seed)
    a, b = [np.searchsorted(rows, drawn) for drawn in drawn_a], np.searchsorted(rows, drawn_b)
    k, retrievable = protocol.k, None
    if protocol.attributes == HELD_OUT:
        k, retrievable = (
            k // 2,
            np.flatnonzero(row_parts[rows] & RETRIEVED > 0),
        )  # half of k from half the items
    return Pool(rows, None, a, [b] * len(a), is_member[rows].astype(float), k, retrievable)


def _draw(
    corpus: Table, drawable: np.ndarray, n: int, seed: int, draw: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Draw A of n items for each group, and B, which all groups share; draw 0 gives the experiment's sets."""
    item_groups = corpus.frame["group"].to_numpy()
    shuffled = []
    for index, group in enumerate(corpus.groups):
        # The table is sorted by id, and so are the rows of a group.
        rows = np.flatnonzero((item_groups == group) & drawable)
        rng = np.random.default_rng([seed, index, *([draw] if draw else [])])
        shuffled.append(rows[rng.permutation(len(rows))])
    share = n // len(shuffled)
    b = np.concatenate([rows[-share:] for rows in shuffled])
    return [rows[:n] for rows in shuffled], [b] * len(shuffled)


def _set_size(corpus: Table, smallest: int, protocol: ProtocolConfig) -> int:
    groups = len(corpus.groups)
    if groups < 2:
        raise NotApplicable(f"{corpus.role}: expected two groups or more, got one. Choose more groups.")
    n = _largest_size(corpus, smallest, protocol)
    if n < groups:
        half = " in the half for A and B (protocol.attributes=held_out)" * (protocol.attributes == HELD_OUT)
        raise NotApplicable(
            f"{corpus.role}: the smallest of {groups} groups has {smallest} items{half}, too few for "
            f"attribute sets with equal shares of the groups. Add more {corpus.role}, or choose fewer groups."
        )
    return n


def _largest_size(corpus: Table, smallest: int, protocol: ProtocolConfig) -> int:
    """Return the size of A and B where the smallest group has `smallest` items; below |G| if too few."""
    groups = len(corpus.groups)
    n = groups * (min(protocol.set_size, smallest) // groups)
    # Among images A and B are disjoint; among sentences they may overlap, and do with the paper's sizes.
    while corpus.role in IMAGE_ROLES and n + n // groups > smallest:
        n -= groups
    return n
