"""Worlds that an experiment is held against: the property exchanged, or other A and B.

See docs/methods.md, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src.studies.propagation.attributes import HELD_OUT, Corpus
from src.studies.propagation.encoded_property import encoded
from src.studies.shared.exchange_units import Exchange
from src.studies.shared.pooling import pooled

Positions = list[np.ndarray]


@dataclass(frozen=True)
class Alternative:
    """R other worlds: other attribute sets, and another property of the exchange units.

    Attributes:
        kind: placebo, family, property or attributes (as in draws.parquet).
        a, b: for each pool and each content, [R, n] positions within the pool.
        outcomes: content -> [units, R], what each exchange unit contributes; None: as measured.
    """

    kind: str
    a: list[Positions]
    b: list[Positions]
    outcomes: Callable[[int], Tensor] | None


def alternatives(corpus: Corpus, vectors: Tensor) -> Iterator[Alternative]:
    """The worlds that an experiment is held against.

    Args:
        corpus: what is retrieved from, with its attribute sets.
        vectors: of the corpus, [M, D] or [M, Q, D].
    """
    protocol, valence = corpus.protocol, corpus.contents == [None]
    if protocol.placebo:
        yield _permuted("placebo", corpus, corpus.exchange.permutations(protocol.placebo))
        if corpus.table.role == "words":
            from snowballstemmer import stemmer

            stems = stemmer("english").stemWords([str(name).lower() for name in corpus.exchange.names])
            moved = corpus.exchange.families(stems).permutations(protocol.placebo, 1)
            yield _permuted("family", corpus, moved)
    # Sets that are another property's extremes would leave the corpus in place of those that are held out.
    if valence and protocol.property_draws and protocol.attributes != HELD_OUT:
        yield _encoded(corpus, vectors)
    if protocol.attribute_draws and not (valence and protocol.extremes < 2):
        yield _redrawn(corpus, protocol.attribute_draws)


def _permuted(kind: str, corpus: Corpus, moved: np.ndarray) -> Alternative:
    """A_r = π_r(A), B_r = π_r(B), y_r = y after π_r's inverse."""
    exchange = corpus.exchange
    a: list[Positions] = []
    b: list[Positions] = []
    for pool in corpus.pools:
        place = np.full(len(corpus.table.frame), -1)
        place[pool.rows] = np.arange(len(pool.rows))
        # Contents share B: moved once, it is summed once.
        known: dict[int, np.ndarray] = {}
        for sets, found in ((pool.a, a), (pool.b, b)):
            rows = []
            for chosen in sets:
                if id(chosen) not in known:
                    known[id(chosen)] = place[exchange.moved(pool.rows[chosen], moved)]
                rows.append(known[id(chosen)])
            found.append(rows)
    inverse, own = np.empty_like(moved), outcomes_of(corpus)
    np.put_along_axis(inverse, moved, np.arange(moved.shape[1], dtype=moved.dtype)[None], axis=1)
    inverse = inverse.T
    return Alternative(kind, a, b, lambda content: torch.from_numpy(own[:, content][inverse]))


def _encoded(corpus: Corpus, vectors: Tensor) -> Alternative:
    """Properties that are encoded as well as the ratings are, with their own extremes."""
    exchange, n = corpus.exchange, corpus.protocol.extremes
    single, copies = pooled(vectors), torch.from_numpy(exchange.grid.T)
    # Template by template: all at once they would be as large as the vectors themselves.
    means = torch.zeros(len(exchange.grid), single.shape[1], dtype=torch.float64)
    for rows in copies:
        means += single[rows] / len(copies)
    ratings, draws = outcomes_of(corpus)[:, 0], corpus.protocol.property_draws
    other = encoded(means.numpy(), ratings, draws, exchange.seed)
    # Units are sorted by name: equal values keep that order.
    order = np.argsort(other, axis=0, kind="stable").T
    a, b = [], []
    for pool in corpus.pools:
        place = np.empty(len(exchange.grid), dtype=np.int64)
        place[exchange.unit[pool.rows]] = np.arange(len(pool.rows))
        a.append([place[order[:, -n:]]])
        b.append([place[order[:, :n]]])
    return Alternative("property", a, b, lambda _: torch.from_numpy(other))


def _redrawn(corpus: Corpus, draws: int) -> Alternative:
    """The measured property with A and B drawn anew."""
    drawn = [corpus.redrawn(draw) for draw in range(1, draws + 1)]
    a, b = [], []
    for number in range(len(corpus.pools)):
        a.append([np.stack(sets) for sets in zip(*(draw[number][0] for draw in drawn), strict=True)])
        shared = {id(one) for one in drawn[0][number][1]}
        sets_b = [np.stack(sets) for sets in zip(*(draw[number][1] for draw in drawn), strict=True)]
        b.append([sets_b[0]] * len(sets_b) if len(shared) == 1 else sets_b)
    return Alternative("attributes", a, b, None)


def outcomes_of(corpus: Corpus) -> np.ndarray:
    """[exchange units, S]: what each contributes to each outcome."""
    exchange: Exchange = corpus.exchange
    found = np.empty((len(exchange.grid), len(corpus.contents)))
    for pool in corpus.pools:
        found[exchange.unit[pool.rows]] = pool.outcomes
    return found
