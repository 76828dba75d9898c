"""Build the pools of a corpus, with their attribute sets A and B (docs/methods.md, section 2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.stimuli import CARRIES, IMAGE_ROLES, Table
from src.studies.propagation.corpus_halves import FIRST, NEITHER, SECOND, halve, split_units
from src.studies.shared.exchange_units import Exchange, build_exchange

VALENCE = "valence"
HELD_OUT = "held_out"
# Bit flags of the rows of a corpus: a row may be drawn for A and B, and it may be retrieved. With held-out
# attribute sets, each half of the corpus has one of the flags; otherwise all rows have both.
DRAWABLE, RETRIEVABLE = FIRST, SECOND
# A and B of a pool: for each of the `Corpus.properties`, positions within the pool.
SetPair = tuple[list[np.ndarray], list[np.ndarray]]


@dataclass(frozen=True)
class Pool:
    """Part of the corpus that includes A and B and from which items are retrieved.

    A text corpus that carries valence has one pool per template, any other corpus has one pool. A, B and
    `retrievable` are positions within the pool.
    """

    rows: np.ndarray  # positions [M] in the corpus's table
    template: str | None  # template of the pool's sentences; None if the pool is the entire corpus
    a: list[np.ndarray]  # A, [n], for each of the S `Corpus.properties`
    b: list[np.ndarray]  # B, likewise
    outcomes: np.ndarray  # [M, S] valence of each item, or 1 for a member of the group and 0 for others
    k: int  # number of retrieved items; 0 if the outcome retrieves nothing
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
    exchange: Exchange  # exchange units of its rows, see `Exchange`
    properties: list[str | None]  # its groups, or [None] if it carries valence
    drawable: np.ndarray  # mask of the rows from which A and B are drawn; unused for valence
    protocol: ProtocolConfig
    seed: int  # seed of all draws on this corpus

    def redraw(self, split: int) -> list[list[SetPair]]:
        """Draw other sets A and B from either half of a split (1, 2, ...); the halves share no cluster.

        For valence they are halves of A and B, for groups sets drawn from halves of the corpus, as large as
        both halves allow.

        Returns:
            For each half, A and B in each pool; fewer than two halves if a half is too small.
        """
        redraw_halves = self._halve_extremes if self.properties == [None] else self._draw_from_halves
        return [*redraw_halves(split)]

    def _halve_extremes(self, split: int) -> Iterator[list[SetPair]]:
        (factor,) = self.exchange.factors
        cluster = factor.clusters[self.exchange.unit_of_row]
        first_pool = self.pools[0]  # all pools have the same words
        in_a, in_b = (
            np.isin(np.arange(len(factor.signatures)), cluster[first_pool.rows[sets[0]]])
            for sets in (first_pool.a, first_pool.b)
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

    def _draw_from_halves(self, split: int) -> Iterator[list[SetPair]]:
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
            yield [_draw_sets(self.table, halves == half, n, self.seed, 2 * split + half)]


def corpus_of(table: Table, protocol: ProtocolConfig, seed: int) -> Corpus:
    """Build the pools of a corpus, with their attribute sets; raise `NotApplicable` if it is too small."""
    return subcorpus_of(table, build_exchange(table, seed), protocol, seed, np.full(len(table.frame), True))


def subcorpus_of(
    table: Table, exchange: Exchange, protocol: ProtocolConfig, seed: int, row_mask: np.ndarray
) -> Corpus:
    """Build the pools of the rows of a corpus in a mask, with their attribute sets.

    `exchange` has the exchange units of the entire corpus. Raise `NotApplicable` if there are too few rows.
    """
    properties: list[str | None] = [None]
    row_flags = np.where(row_mask, DRAWABLE | RETRIEVABLE, NEITHER)
    if CARRIES[table.role] == VALENCE:
        pools = _build_valence_pools(table, protocol, exchange, row_mask)
        if protocol.attributes == HELD_OUT:
            level_parts = np.full(len(exchange.grid), NEITHER)
            for pool in pools:
                level_parts[exchange.unit_of_row[pool.rows[pool.retrievable]]] = RETRIEVABLE
            exchange = exchange.restrict([level_parts])
    else:
        properties = [*table.groups]
        if protocol.attributes == HELD_OUT:
            halves_by_factor, row_flags = split_units(table, exchange, seed, row_mask=row_mask)
            exchange = exchange.restrict(halves_by_factor)
        pools = [_build_group_pool(table, protocol, seed, row_mask, row_flags)]
    return Corpus(table, pools, exchange, properties, row_flags & DRAWABLE > 0, protocol, seed)


def find_extremes(items: pd.DataFrame, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the `count` items of lowest and of highest valence; column `name` breaks ties."""
    order = np.array(items.reset_index(drop=True).sort_values([VALENCE, name], kind="stable").index)
    return order[:count], order[-count:]


def _build_valence_pools(
    corpus: Table, protocol: ProtocolConfig, exchange: Exchange, row_mask: np.ndarray
) -> list[Pool]:
    frame, n = corpus.frame, protocol.extremes
    cluster = exchange.factors[0].clusters[exchange.unit_of_row]
    is_image = corpus.role in IMAGE_ROLES
    name, templates = ("id", None) if is_image else ("word", frame["template"].to_numpy())
    check_size(corpus.role, frame[name][row_mask].nunique(), protocol)
    pools = []
    for template in [None] if templates is None else sorted(np.unique(templates[row_mask])):
        rows = np.flatnonzero(row_mask if templates is None else row_mask & (templates == template))
        low, high = find_extremes(frame.iloc[rows], name, n)
        outcomes = frame[VALENCE].to_numpy(dtype=float)[rows, None]
        retrievable = None
        if protocol.attributes == HELD_OUT:
            # Items that share a cluster with an item of A or B are not retrieved either.
            retrievable = np.flatnonzero(~np.isin(cluster[rows], cluster[rows[[*low, *high]]]))
        pools.append(Pool(rows, template, [high], [low], outcomes, protocol.k, retrievable))
    return pools


def check_size(role: str, n_items: int, protocol: ProtocolConfig) -> None:
    """Check that a role has enough items for two extremes of valence; raise `NotApplicable` otherwise."""
    if n_items < 2 * protocol.extremes:
        raise NotApplicable(
            f"expected at least {2 * protocol.extremes} {role} (protocol.extremes={protocol.extremes} on "
            f"each side), got {n_items}. Set protocol.extremes={n_items // 2} or less, or add more {role}."
        )


def _build_group_pool(
    corpus: Table, protocol: ProtocolConfig, seed: int, row_mask: np.ndarray, row_flags: np.ndarray
) -> Pool:
    is_member = corpus.frame["group"].to_numpy()[:, None] == np.array(corpus.groups)
    drawable, rows = row_flags & DRAWABLE > 0, np.flatnonzero(row_mask)
    n = _choose_set_size(corpus, int(is_member[drawable].sum(axis=0).min()), protocol)
    rows_a, (rows_b, *_) = _draw_sets(corpus, drawable, n, seed)
    a, b = [np.searchsorted(rows, members) for members in rows_a], np.searchsorted(rows, rows_b)
    k, retrievable = protocol.k, None
    if protocol.attributes == HELD_OUT:
        k //= 2  # as half of the items can be retrieved
        retrievable = np.flatnonzero(row_flags[rows] & RETRIEVABLE > 0)
    return Pool(rows, None, a, [b] * len(a), is_member[rows].astype(float), k, retrievable)


def _draw_sets(
    corpus: Table, drawable: np.ndarray, n: int, seed: int, draw: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Draw rows of a corpus for A, n of each group, and for B, n with equal shares of all groups.

    All groups share one array B. Draw 0 gives the sets of the experiment.
    """
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


def _choose_set_size(corpus: Table, smallest: int, protocol: ProtocolConfig) -> int:
    groups = len(corpus.groups)
    if groups < 2:
        raise NotApplicable(f"{corpus.role}: expected at least two groups, got one. Choose more groups.")
    if protocol.set_size < groups:
        raise NotApplicable(
            f"protocol.set_size={protocol.set_size}: expected at least {groups}, the number of groups of "
            f"{corpus.role}. Raise protocol.set_size."
        )
    n = _largest_size(corpus, smallest, protocol)
    if n < groups:
        half = " in the half for A and B (protocol.attributes=held_out)" * (protocol.attributes == HELD_OUT)
        raise NotApplicable(
            f"{corpus.role}: the smallest of {groups} groups has {smallest} items{half}, too few for "
            f"attribute sets with equal shares of the groups. Add more {corpus.role}, or choose fewer groups."
        )
    return n


def _largest_size(corpus: Table, smallest: int, protocol: ProtocolConfig) -> int:
    """Return the size of A and B, a multiple of the number of groups; 0 if there are too few items.

    `smallest` is the number of items of the smallest group.
    """
    groups = len(corpus.groups)
    n = groups * (min(protocol.set_size, smallest) // groups)
    # A and B are disjoint among images; among sentences they overlap with the paper's sizes.
    while corpus.role in IMAGE_ROLES and n + n // groups > smallest:
        n -= groups
    return n
