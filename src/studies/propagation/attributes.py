"""Build the pools of a corpus, with their attribute sets A and B (docs/methods.md, section 2)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.stimuli import CARRIES, IMAGE_ROLES, Table, clusters
from src.studies.shared.exchange_units import Exchange, exchange_of

VALENCE = "valence"
HELD_OUT = "held_out"
# Use of a part of a corpus, in bits: A and B are drawn from it, items are retrieved from it, or neither.
# Without held-out attribute sets, the whole corpus has both bits.
SETS, RETRIEVED, NEITHER = 1, 2, 0


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

    def redraw(self, draw: int) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        """Return A and B of a draw (its number, from 1) for each pool, with positions for each property.

        For valence, draw half of each set; for groups, draw sets of the same size anew.
        """
        if self.properties == [None]:
            half = self.protocol.extremes // 2
            rng = np.random.default_rng([self.seed, 0, draw])
            a, b = (np.sort(rng.permutation(self.protocol.extremes)[:half]) for _ in range(2))
            return [([pool.a[0][a]], [pool.b[0][b]]) for pool in self.pools]
        (pool,) = self.pools
        return [_draw(self.table, self.drawable, len(pool.a[0]), self.seed, draw)]


def corpus_of(table: Table, protocol: ProtocolConfig, seed: int) -> Corpus:
    """Build the pools of a corpus, with their attribute sets; raise `NotApplicable` if it is too small."""
    exchange = exchange_of(table, seed)
    properties: list[str | None] = [None]
    row_parts = np.full(len(table.frame), SETS | RETRIEVED)
    if CARRIES[table.role] == VALENCE:
        pools = _valence_pools(table, protocol, exchange)
        if protocol.attributes == HELD_OUT:
            parts = np.full(len(exchange.grid), NEITHER)
            for pool in pools:
                parts[exchange.unit_of_row[pool.rows[pool.retrievable]]] = RETRIEVED
            exchange = exchange.restrict([parts])
    else:
        properties = [*table.groups]
        if protocol.attributes == HELD_OUT:
            exchange, row_parts = _split_units(table, exchange, seed)
        pools = [_group_pool(table, protocol, seed, row_parts)]
    return Corpus(table, pools, exchange, properties, row_parts & SETS > 0, protocol, seed)


def extremes(items: pd.DataFrame, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the `count` items of lowest and highest valence; ties in order of column `name`."""
    order = np.array(items.reset_index(drop=True).sort_values([VALENCE, name], kind="stable").index)
    return order[:count], order[-count:]


def _valence_pools(corpus: Table, protocol: ProtocolConfig, exchange: Exchange) -> list[Pool]:
    frame, n = corpus.frame, protocol.extremes
    cluster = exchange.factors[0].clusters[exchange.unit_of_row]
    is_image = corpus.role in IMAGE_ROLES
    check_size(corpus, protocol)
    pools = []
    for template in [None] if is_image else sorted(frame["template"].unique()):
        rows = np.arange(len(frame)) if is_image else np.flatnonzero(frame["template"] == template)
        low, high = extremes(frame.iloc[rows], "id" if is_image else "word", n)
        outcomes = frame[VALENCE].to_numpy(dtype=float)[rows, None]
        retrievable = None
        if protocol.attributes == HELD_OUT:
            # All that share a cluster with an extreme leave with it.
            retrievable = np.flatnonzero(~np.isin(cluster[rows], cluster[rows[[*low, *high]]]))
        pools.append(Pool(rows, template, [high], [low], outcomes, protocol.k, retrievable))
    return pools


def check_size(table: Table, protocol: ProtocolConfig) -> None:
    """Check that the table has enough items for two extremes of valence."""
    items, extreme = table.n_items, protocol.extremes
    if items < 2 * extreme:
        raise NotApplicable(
            f"{table.role}: protocol.extremes={extreme} on each side needs {2 * extreme} items, got {items}. "
            f"Set protocol.extremes={items // 2} or less, or add more {table.role}."
        )


def _group_pool(corpus: Table, protocol: ProtocolConfig, seed: int, row_parts: np.ndarray) -> Pool:
    is_member = corpus.frame["group"].to_numpy()[:, None] == np.array(corpus.groups)
    drawable = row_parts & SETS > 0
    n = _set_size(corpus, int(is_member[drawable].sum(axis=0).min()), protocol)
    a, b = _draw(corpus, drawable, n, seed)
    k, retrievable = protocol.k, None
    if protocol.attributes == HELD_OUT:
        k, retrievable = k // 2, np.flatnonzero(row_parts & RETRIEVED > 0)  # half of k from half the items
    return Pool(np.arange(len(drawable)), None, a, b, is_member.astype(float), k, retrievable)


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


def _split_units(corpus: Table, exchange: Exchange, seed: int) -> tuple[Exchange, np.ndarray]:
    """Split the clusters of each group in halves: one provides A and B, the other is retrieved.

    A phrase that shares its race word with one half and its gender word with the other is in neither. In a
    group whose parents are all linked by morphs, the parents are split instead: a morph of parents of both
    halves is in neither. Return the exchange within the halves, and the part of each row of the corpus.
    """
    parts_by_factor = []
    for number, factor in enumerate(exchange.factors):
        half_of_cluster = np.full(len(factor.signatures), NEITHER)
        by_signature: dict[tuple[str, ...], list[int]] = {}
        for cluster, signature in enumerate(factor.signatures):
            by_signature.setdefault(signature, []).append(cluster)
        for index, (_, same) in enumerate(sorted(by_signature.items())):
            half_of_cluster[same] = _halve(len(same), np.random.default_rng([seed, index, 0, 1 + number]))
        parts_by_factor.append(half_of_cluster[factor.clusters])
    ways = clusters.assign_clusters(corpus)
    if {*clusters.PARENTS} <= {*ways.columns}:  # morphs
        _split_linked(parts_by_factor[0], ways, corpus.frame["group"].to_numpy(), exchange, seed)
    parts = np.stack([level_parts[exchange.levels[:, n]] for n, level_parts in enumerate(parts_by_factor)])
    unit_parts = np.where((parts == parts[0]).all(axis=0), parts[0], NEITHER)
    return exchange.restrict(parts_by_factor), unit_parts[exchange.unit_of_row]


def _split_linked(
    parts: np.ndarray, parents: pd.DataFrame, groups: np.ndarray, exchange: Exchange, seed: int
) -> None:
    """Split the parents of each group that is a single cluster; overwrite the `parts` [faces] of its faces.

    A face gets the half to which both its parents belong, or `NEITHER`.
    """
    cluster = exchange.factors[0].clusters
    for index, group in enumerate(np.unique(groups)):
        faces = np.flatnonzero(groups == group)
        if len(np.unique(cluster[faces])) > 1:
            continue
        names, numbers = np.unique(parents.iloc[faces].to_numpy(dtype=str), return_inverse=True)
        halves = _halve(len(names), np.random.default_rng([seed, index, 0, 3]))
        first, second = halves[numbers.reshape(-1, 2)].T
        parts[faces] = np.where(first == second, first, NEITHER)


def _halve(count: int, rng: np.random.Generator) -> np.ndarray:
    """Deal clusters into halves, the larger of which is retrieved."""
    parts = np.full(count, RETRIEVED)
    parts[rng.permutation(count)[: count // 2]] = SETS
    return parts


def _set_size(corpus: Table, smallest: int, protocol: ProtocolConfig) -> int:
    groups = len(corpus.groups)
    if groups < 2:
        raise NotApplicable(f"{corpus.role}: expected two groups or more, got one. Choose more groups.")
    n = groups * (min(protocol.set_size, smallest) // groups)
    # Among images A and B are disjoint; among sentences they may overlap, and do with the paper's sizes.
    while corpus.role in IMAGE_ROLES and n + n // groups > smallest:
        n -= groups
    if n < groups:
        half = " in the half for A and B (protocol.attributes=held_out)" * (protocol.attributes == HELD_OUT)
        raise NotApplicable(
            f"{corpus.role}: the smallest of {groups} groups has {smallest} items{half}, too few for "
            f"attribute sets with equal shares of the groups. Add more {corpus.role}, or choose fewer groups."
        )
    return n
